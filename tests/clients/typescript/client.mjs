// The TypeScript SDK's client, worked from outside: a command per line on standard input, an answer per line on standard
// output. Every answer carries the HTTP exchanges since the one before.
//
//   node client.mjs TIMEOUT_MS
//   {"do": "connect", "with": {"url": …, "headers": …, "reopenMs": …} or {"command": …, "args": …, "env": …}}
//   {"do": "call", "with": {"name": …, "arguments": …}}   ->   {"result": …, "wire": […]} or {"error": …, "wire": […]}

import { EventEmitter, once } from 'node:events';
import { createInterface } from 'node:readline';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [timeoutMs] = process.argv.slice(2);
const options = { timeout: Number(timeoutMs) };

let wire = [];

async function recordingFetch(target, init) {
  const response = await fetch(target, init);
  const isJson = response.headers.get('content-type') === 'application/json';
  wire.push({
    verb: init.method,
    method: init.body ? JSON.parse(init.body).method : null,
    session: new Headers(init.headers).get('mcp-session-id'),
    status: response.status,
    error: isJson ? ((await response.clone().json()).error?.code ?? null) : null,
  });
  return response;
}

let transport;

function transportTo({ url, headers, reopenMs, ...command }) {
  if (url === undefined) return new StdioClientTransport(command);
  return new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers },
    fetch: recordingFetch,
    // All but the first are the SDK's own defaults.
    reconnectionOptions: {
      initialReconnectionDelay: reopenMs,
      maxReconnectionDelay: 30000,
      reconnectionDelayGrowFactor: 1.5,
      maxRetries: 2,
    },
  });
}

const news = new EventEmitter();
let heard = 0;
let failure = null;

// By default the SDK lists the tools anew when it hears of a change, and hands them on.
function onChanged(error) {
  failure ??= error;
  heard += 1;
  news.emit('more');
}

const client = new Client(
  { name: 'crux-client-tests', version: '1' },
  { listChanged: { tools: { onChanged, debounceMs: 0 } } },
);

const commands = {
  async connect(server) {
    transport = transportTo(server);
    await client.connect(transport, options);
    return { server: client.getServerVersion(), protocol: transport.protocolVersion ?? null };
  },
  tools: async () => (await client.listTools(undefined, options)).tools,
  call: async (call) => (await client.callTool(call, undefined, options)).content,
  resources: () => client.listResources(undefined, options),
  async heard(times) {
    while (heard < times) await once(news, 'more', { signal: AbortSignal.timeout(options.timeout) });
    if (failure !== null) throw failure;
    return heard;
  },
  async close() {
    await transport.terminateSession?.();
    await client.close();
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  let answer;
  try {
    answer = { result: (await commands[command.do](command.with)) ?? null };
  } catch ({ code, message, data }) {
    answer = { error: { code, message, data } };
  }
  answer.wire = wire;
  wire = [];
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}

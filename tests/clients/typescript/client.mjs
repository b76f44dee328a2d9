// The TypeScript SDK's client, worked from outside: a command per line on standard input, an answer per line on standard
// output. Every answer carries the HTTP exchanges since the one before.
//
//   node client.mjs URL TIMEOUT_MS [TOKEN]
//   {"do": "call", "with": {"name": …, "arguments": …}}   ->   {"result": …, "wire": […]} or {"error": …, "wire": […]}

import { createInterface } from 'node:readline';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [url, timeoutMs, token] = process.argv.slice(2);
const options = { timeout: Number(timeoutMs) };
const headers = token === undefined ? {} : { Authorization: `Bearer ${token}` };

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

const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers }, fetch: recordingFetch });
const client = new Client({ name: 'crux-client-tests', version: '1' });

const commands = {
  async connect() {
    await client.connect(transport, options);
    return { server: client.getServerVersion(), protocol: transport.protocolVersion };
  },
  tools: async () => (await client.listTools(undefined, options)).tools,
  call: async (call) => (await client.callTool(call, undefined, options)).content,
  resources: () => client.listResources(undefined, options),
  async close() {
    await transport.terminateSession();
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

"""The table of settings: every value that an operator may choose, with its type, default, sources and meaning.

Code reads typed attributes of `Settings`. Loading, `crux config` and the reference page are derived from its fields, so
a setting is declared here and nowhere else.
"""

from pathlib import Path

from attrs import Factory, frozen
from platformdirs import user_data_path

from crux.config import parsers
from crux.config.capability import CapabilitySettings
from crux.config.declaration import Group, setting
from crux.config.memory import MemorySettings
from crux.config.oauth import OAuthSettings
from crux.config.parsers import AuthMode
from crux.config.recording import RecordingSettings
from crux.config.wire import WireSettings
from crux.domain.surface import ExtensionNames, SurfaceMode
from crux.logs import LogFormat, LogLevel, Redact

AGENT_HTTP_SCOPES = frozenset(
    {"admin:read", "admin:write", "facts:write", "query:read", "sessions:read", "sessions:write"}
)


def _user_data_dir() -> Path:
    return user_data_path("crux", appauthor=False)


# A part of the settings has no slots: classes with slots of their own cannot be combined.
@frozen(kw_only=True)
class Settings(CapabilitySettings, MemorySettings, OAuthSettings, RecordingSettings, WireSettings):
    """What one daemon runs with. Times are whole seconds where a name ends in `_s`; sizes are bytes."""

    http_host: str = setting(
        "127.0.0.1",
        env="CORECRUXD_HTTP_HOST",
        file="daemon.listen_addr",
        group=Group.LISTENERS,
        parse=parsers.host,
        meaning="Address that the HTTP API listens on.",
    )
    http_port: int = setting(
        14800,
        env="CORECRUXD_HTTP_PORT",
        file="daemon.http_port",
        group=Group.LISTENERS,
        parse=parsers.port,
        meaning="Port of the HTTP API; 0 takes any free port.",
    )
    mcp_host: str = setting(
        "127.0.0.1",
        env="CORECRUXD_MCP_HOST",
        file="daemon.listen_addr",
        group=Group.LISTENERS,
        parse=parsers.host,
        meaning="Address that MCP listens on.",
    )
    mcp_port: int = setting(
        14801,
        env="CORECRUXD_MCP_PORT",
        file="daemon.mcp_port",
        group=Group.LISTENERS,
        parse=parsers.port,
        meaning="Port of MCP; 0 takes any free port.",
    )
    mcp_enabled: bool = setting(
        True,
        env="CORECRUXD_MCP_ENABLED",
        file="daemon.mcp_enabled",
        group=Group.LISTENERS,
        parse=parsers.switch,
        meaning="Whether MCP is served at all.",
    )
    allowed_hosts: tuple[str, ...] = setting(
        (),
        env="CRUX_ALLOWED_HOSTS",
        group=Group.LISTENERS,
        parse=parsers.items,
        meaning="Names, beside the loopback ones, that a `Host` may carry: `host` for any port or `host:port`, "
        "comma-separated.",
    )
    allowed_origins: tuple[str, ...] = setting(
        (),
        env="CRUX_ALLOWED_ORIGINS",
        group=Group.LISTENERS,
        parse=parsers.items,
        meaning="Web origins, beside the loopback ones, whose pages may call the daemon; comma-separated.",
    )

    auth_mode: AuthMode | None = setting(
        None,
        env="CORECRUXD_AUTH_MODE",
        file="daemon.auth_mode",
        group=Group.AUTH,
        parse=parsers.auth_mode,
        default_shown="`dev_scopes` on loopback, else required",
        meaning="How the HTTP API learns who calls: `off`, `dev_scopes` (the caller names its scopes) or `jwt_hs256`.",
    )
    allow_insecure_bind: bool = setting(
        False,
        env="CORECRUXD_ALLOW_INSECURE_DEV_AUTH_BIND",
        group=Group.AUTH,
        parse=parsers.switch,
        meaning="Lets a listener without real authentication leave loopback, once `CORECRUXD_AUTH_MODE` is set too. "
        "Anyone who reaches it may do anything.",
    )
    jwt_hs256_secret: bytes | None = setting(
        None,
        env="CORECRUXD_JWT_HS256_SECRET",
        group=Group.AUTH,
        parse=parsers.hs256_key,
        secret=True,
        meaning="Key that signs the bearer tokens of `jwt_hs256`: text, or bytes as `base64:…`; at least 32 bytes.",
    )
    allow_weak_hs256_secret: bool = setting(
        False,
        env="CORECRUXD_ALLOW_WEAK_HS256_SECRET",
        group=Group.AUTH,
        parse=parsers.switch,
        meaning="Accepts a JWT key of fewer than 32 bytes; for experiments.",
    )
    jwt_issuer: str | None = setting(
        None,
        env="CORECRUXD_JWT_ISS",
        group=Group.AUTH,
        parse=parsers.text,
        meaning="The `iss` that a JWT must carry; unset checks none.",
    )
    jwt_audience: str | None = setting(
        None,
        env="CORECRUXD_JWT_AUD",
        group=Group.AUTH,
        parse=parsers.text,
        meaning="The `aud` that a JWT must carry; unset checks none.",
    )
    agent_token: str | None = setting(
        None,
        env="CRUX_AGENT_TOKEN",
        group=Group.AUTH,
        parse=parsers.secret,
        secret=True,
        keep_empty=True,
        meaning="Token of the operator, who is agent `default`. Set but empty is an error.",
    )
    agent_tokens: str | None = setting(
        None,
        env="CRUX_AGENT_TOKENS",
        group=Group.AUTH,
        parse=parsers.secret,
        secret=True,
        keep_empty=True,
        meaning="Agents and tokens as `name:token,name:token`, in place of the single one. Set but empty is an error.",
    )
    agent_token_http_scopes: frozenset[str] = setting(
        AGENT_HTTP_SCOPES,
        env="CORECRUXD_AGENT_TOKEN_HTTP_SCOPES",
        group=Group.AUTH,
        parse=parsers.scopes,
        meaning="What agent tokens may do on the HTTP API; the agents of `CRUX_AGENT_TOKENS` never get `admin:write`.",
    )

    max_body_bytes: int = setting(
        16 * 1024 * 1024,
        env="CORECRUXD_MAX_REQUEST_BODY_BYTES",
        group=Group.LIMITS,
        parse=parsers.whole(0),
        meaning="Largest request body in bytes; 0 sets no limit.",
    )
    max_inflight: int = setting(
        1024,
        env="CORECRUXD_MAX_INFLIGHT",
        group=Group.LIMITS,
        parse=parsers.whole(0),
        meaning="Requests that one listener works on at a time, more are answered 503; 0 sets no limit.",
    )
    request_timeout_s: int = setting(
        30,
        env="CORECRUXD_REQUEST_TIMEOUT_SECS",
        group=Group.LIMITS,
        parse=parsers.whole(1),
        meaning="Seconds until an unanswered request is given up. Event streams are not cut.",
    )
    tool_surface: SurfaceMode = setting(
        SurfaceMode.FULL,
        env="CORECRUXD_TOOL_SURFACE",
        group=Group.LISTENERS,
        parse=SurfaceMode.named,
        meaning="Which tools `tools/list` shows: `full`, or the core floor with `minimal` and `dynamic`. "
        "Hidden ones stay callable. Anything else counts as `full`.",
    )
    extension_names: ExtensionNames = setting(
        ExtensionNames.VERBATIM,
        env="CRUX_EXTENSION_NAMES",
        group=Group.LISTENERS,
        parse=parsers.extension_names,
        meaning="How `tools/list` names the tools of extensions: `verbatim`, or `safe` with underscores for dots, for "
        "hosts that refuse a list with a dot in a name. Both names can be called.",
    )
    sse_max_sessions: int = setting(
        1024,
        env="CRUX_MCP_SSE_MAX_SESSIONS",
        group=Group.LIMITS,
        parse=parsers.whole(0),
        meaning="Push streams that may be open at a time; 0 sets no limit.",
    )
    sse_max_sessions_per_owner: int = setting(
        64,
        env="CRUX_MCP_SSE_MAX_SESSIONS_PER_OWNER",
        group=Group.LIMITS,
        parse=parsers.whole(0),
        meaning="Push streams that one agent, or one address without a token, may have open; 0 sets no limit.",
    )
    shutdown_drain_s: int = setting(
        30,
        env="CORECRUXD_SHUTDOWN_DRAIN_SECS",
        group=Group.LIMITS,
        parse=parsers.whole(0),
        meaning="Seconds that requests in flight get when the daemon stops; 0 waits for ever.",
    )
    mailbox_capacity: int = setting(
        1024,
        env="CORECRUXD_MAILBOX_CAPACITY",
        group=Group.LIMITS,
        parse=parsers.whole(1),
        meaning="Messages that may wait for one actor before callers are held back.",
    )

    data_dir: Path = setting(
        Factory(_user_data_dir),
        env="CORECRUXD_DATA_DIR",
        file="daemon.data_dir",
        group=Group.STORAGE,
        parse=parsers.path,
        expands=True,
        default_shown="the platform's user data directory, `~/.local/share/crux` on Linux",
        meaning="Directory of the database and keys, for one daemon alone.",
    )

    always_private_prefixes: tuple[str, ...] = setting(
        (),
        env="CORECRUXD_ALWAYS_PRIVATE_PREFIXES",
        group=Group.PRIVACY,
        parse=parsers.items,
        meaning="Entities that begin so are private from their first write, beside the built-in ones; comma-separated.",
    )
    share_prefixes: tuple[str, ...] = setting(
        (),
        env="CORECRUXD_SHARE_PREFIXES_OVERRIDE",
        group=Group.PRIVACY,
        parse=parsers.items,
        meaning="Entities that begin so are shared although a private prefix says otherwise; comma-separated. "
        "Names that belong to agents or to the daemon are never exempt.",
    )
    decay_volatile_hours: int = setting(
        24,
        env="CORECRUXD_DECAY_VOLATILE_HOURS",
        group=Group.PRIVACY,
        parse=parsers.whole(1, 876_000),
        meaning="Hours after which a fact of decay class `volatile` counts as stale.",
    )
    decay_medium_days: int = setting(
        35,
        env="CORECRUXD_DECAY_MEDIUM_DAYS",
        group=Group.PRIVACY,
        parse=parsers.whole(1, 36_500),
        meaning="Days after which a fact of decay class `medium` counts as stale.",
    )
    decay_stable_days: int = setting(
        365,
        env="CORECRUXD_DECAY_STABLE_DAYS",
        group=Group.PRIVACY,
        parse=parsers.whole(1, 36_500),
        meaning="Days after which a fact of decay class `stable` counts as stale.",
    )
    memory_salience: bool = setting(
        False,
        env="CORECRUXD_MEMORY_SALIENCE",
        group=Group.PRIVACY,
        parse=parsers.switch,
        meaning="Facts that `query_facts` returns often go stale later, by up to four times; counted in memory.",
    )

    log_format: LogFormat = setting(
        LogFormat.TEXT,
        env="CORECRUX_LOG_FORMAT",
        group=Group.LOGGING,
        parse=parsers.log_format,
        meaning="`text` for people, or `json` with one object a line; both go to standard error.",
    )
    log_level: LogLevel = setting(
        LogLevel.INFO,
        env="CORECRUXD_LOG_LEVEL",
        group=Group.LOGGING,
        parse=parsers.log_level,
        meaning="Least severe level that is written: `trace`, `debug`, `info`, `warn` or `error`.",
    )
    redact: Redact = setting(
        Redact.ON,
        env="CORECRUXD_REDACT",
        group=Group.LOGGING,
        parse=parsers.redact,
        meaning="Secrets in log lines: `on` takes them out, `audit` only counts them, `off` does not look. "
        "Error texts sent to callers are cleaned in any case.",
    )

/** Every setting of the agent. Read once at start; all mistakes are told together. */
import { idPattern } from "@holdfast/model/id";
import { type ConfigOf, defineConfig } from "@holdfast/shared/config/config";
import { failpointSetting } from "@holdfast/shared/config/failpoint-setting";
import { auditSettings, questionSettings, serviceSettings } from "@holdfast/shared/config/service-settings";
import {
  addressSetting,
  durationSetting,
  enumSetting,
  intSetting,
  listSetting,
  optional,
  pathSetting,
  stringSetting,
  tcpAddressSetting,
} from "@holdfast/shared/config/setting";
import { trustSettings } from "@holdfast/shared/config/trust-settings";
import { pinPattern } from "@holdfast/shared/trust/authority";
import { dockerSettings } from "./docker-settings.ts";
import { defaultAllowedOptions, defaultForcedOptions } from "./domain/mount-options.ts";
import { maxRootBytes } from "./domain/paths.ts";
import { failpointNames } from "./failpoints.ts";
import { nomadSettings } from "./nomad-settings.ts";
import { maxSocketBaseBytes } from "./plugins/host/socket-dirs.ts";

const hostIdentity = (() => {
  const base = stringSetting({
    env: "HOLDFAST_HOST_IDENTITY",
    doc: "What this host has and no copy of it, so that its boots need no person: a value, `file:` or `exec:` with an absolute path, or `none`. Unset: the product UUID of its DMI.",
  });
  const parse: typeof base.parse = (text) => {
    const parsed = base.parse(text);
    if (!("value" in parsed)) return parsed;
    const [, place] = /^(?:file|exec):(.*)$/s.exec(parsed.value) ?? [];
    return place === undefined || place.startsWith("/") ? parsed : { wrong: "has to name an absolute path" };
  };
  return optional({ ...base, parse });
})();

const paths = {
  stateDir: pathSetting({
    env: "HOLDFAST_STATE_DIR",
    doc: "Directory of the journal; one agent alone may use it, and it must survive a reboot.",
    default: "/var/lib/holdfast/agent",
  }),
  machineIdFile: pathSetting({
    env: "HOLDFAST_MACHINE_ID_FILE",
    doc: "The host's machine id, 32 hexadecimal digits; in a container the host's file, mounted read-only.",
    default: "/etc/machine-id",
  }),
  hostIdentity,
  rootDir: (() => {
    const base = pathSetting({
      env: "HOLDFAST_ROOT_DIR",
      doc: `Directory under which volumes are staged and published, best on a tmpfs; at most ${maxRootBytes} bytes, changeable by root alone.`,
      default: "/run/holdfast/mounts",
    });
    const parse: typeof base.parse = (text) => {
      const parsed = base.parse(text);
      if (!("value" in parsed)) return parsed;
      const bytes = Buffer.byteLength(parsed.value);
      return bytes <= maxRootBytes
        ? parsed
        : { wrong: `has ${bytes} bytes, ${maxRootBytes} are allowed: CSI limits a path to 128` };
    };
    return { ...base, parse };
  })(),
};

const hostedPluginDir = (() => {
  const base = pathSetting({
    env: "HOLDFAST_HOSTED_PLUGIN_DIR",
    doc: `Directory in which each plugin that a runner hosts gets a directory for its socket; one agent alone may use it; at most ${maxSocketBaseBytes} bytes.`,
    default: "/run/holdfast/hosted-plugins",
  });
  const parse: typeof base.parse = (text) => {
    const parsed = base.parse(text);
    if (!("value" in parsed)) return parsed;
    const bytes = Buffer.byteLength(parsed.value);
    return bytes <= maxSocketBaseBytes
      ? parsed
      : { wrong: `has ${bytes} bytes, ${maxSocketBaseBytes} are allowed: the path of a socket has a limit` };
  };
  return { ...base, parse };
})();

const controllers = (() => {
  const base = listSetting({
    env: "HOLDFAST_CONTROLLERS",
    doc: "Where controllers listen for agents (their HOLDFAST_AGENT_LISTEN), one at least: host:port or unix:///path. The agent keeps a stream to every address that a name has.",
    default: ["127.0.0.1:7602"],
  });
  const one = addressSetting({ env: "HOLDFAST_CONTROLLERS", doc: base.doc });
  const parse: typeof base.parse = (text) => {
    const parsed = base.parse(text);
    if (!("value" in parsed)) return parsed;
    if (parsed.value.length === 0) return { wrong: "has to name one controller at least" };
    const wrong = parsed.value.flatMap((item) => {
      const address = one.parse(item);
      return "wrong" in address ? [`${item}: ${address.wrong}`] : [];
    });
    return wrong.length === 0 ? parsed : { wrong: wrong.join("; ") };
  };
  return { ...base, parse };
})();

const proxy = (() => {
  const base = stringSetting({
    env: "HOLDFAST_PROXY",
    doc: "HTTP proxy (CONNECT) on the way to the controllers, http://host:port; the proxy looks their names up. Without it, none is used, whatever http_proxy says.",
    // It may hold a password.
    secret: true,
  });
  const parse: typeof base.parse = (text) => {
    const url = URL.parse(text);
    const bare =
      url?.protocol === "http:" && url.hostname !== "" && url.pathname === "/" && url.search + url.hash === "";
    return bare ? { value: text } : { wrong: "has to be http://host:port" };
  };
  return optional({ ...base, parse });
})();

const enrolSettings = {
  enrolTokenFile: optional(
    pathSetting({
      env: "HOLDFAST_ENROL_TOKEN_FILE",
      doc: "File with a token of `holdfast node token`: an agent without a certificate in HOLDFAST_TLS_DIR enrols with it at its start.",
    }),
  ),
  enrolPin: optional(
    stringSetting({
      env: "HOLDFAST_ENROL_PIN",
      doc: "Pin of the root that the controllers lead to, as `holdfast node token` prints it; a token is sent to nothing else.",
      pattern: pinPattern,
      hint: "has to be sha256: and 64 hexadecimal digits",
    }),
  ),
};

/** `mount -o` reads the list as it stands. */
const mountOptions = (init: { readonly env: string; readonly doc: string; readonly default: readonly string[] }) => {
  const base = listSetting(init);
  const parse: typeof base.parse = (text) => {
    const parsed = base.parse(text);
    if (!("value" in parsed)) return parsed;
    const wrong = parsed.value.filter((name) => !/^[a-z][a-z0-9_-]*=?$/.test(name));
    return wrong.length === 0 ? parsed : { wrong: `${wrong.join(", ")}: no name of a mount option` };
  };
  return { ...base, parse };
};

const failpoints = failpointSetting(failpointNames, "For tests: where to kill the agent.");

const localListen = (() => {
  const base = addressSetting({
    env: "HOLDFAST_LOCAL_LISTEN",
    doc: "Socket for the workload runner of this host, unix:///path; not served without it.",
  });
  const parse: typeof base.parse = (text) =>
    text.startsWith("unix:") ? base.parse(text) : { wrong: "has to be a socket, unix:///absolute/path" };
  return optional({ ...base, parse });
})();

export const configSchema = defineConfig({
  node: stringSetting({ env: "HOLDFAST_NODE", doc: "Name of this node.", pattern: idPattern }),
  controllers,
  proxy,
  ...trustSettings,
  ...enrolSettings,
  localListen,
  localGroup: optional(
    stringSetting({
      env: "HOLDFAST_LOCAL_GROUP",
      doc: "Group, by name or number, that may use the local socket (0660).",
      pattern: /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}$/,
    }),
  ),
  ...dockerSettings,
  ...nomadSettings,
  ...paths,
  pluginDir: pathSetting({
    env: "HOLDFAST_PLUGIN_DIR",
    doc: "Directory in which node plugins show their sockets: <any>.sock or <any>/csi.sock; plugins.json in it says more.",
    default: "/run/holdfast/node-plugins",
  }),
  hostedPluginDir,
  pluginHealthInterval: durationSetting({
    env: "HOLDFAST_PLUGIN_HEALTH_INTERVAL",
    doc: "Between two looks at the health of a plugin, a tenth more or less; what happens in between is noticed at once.",
    min: 100,
    max: 600_000,
    default: 30_000,
  }),
  adminListen: tcpAddressSetting({
    env: "HOLDFAST_ADMIN_LISTEN",
    doc: "Address of /metrics, /healthz and /readyz.",
    default: "127.0.0.1:7611",
  }),
  ...serviceSettings,
  ...questionSettings,
  ...auditSettings,
  reconnectMax: durationSetting({
    env: "HOLDFAST_RECONNECT_MAX",
    doc: "Longest wait before a controller is dialled again; a controller takes up 300 agents a second, however many dial.",
    min: 100,
    max: 600_000,
    default: 1_000,
  }),
  statsTimeout: durationSetting({
    env: "HOLDFAST_STATS_TIMEOUT",
    doc: "How long a plugin may take to measure one volume.",
    min: 100,
    max: 120_000,
    default: 10_000,
  }),
  statsMaxAge: durationSetting({
    env: "HOLDFAST_STATS_MAX_AGE",
    doc: "How old the figures of a volume may be before its plugin is asked again.",
    min: 0,
    max: 3_600_000,
    default: 30_000,
  }),
  mountOptionsAllowed: mountOptions({
    env: "HOLDFAST_MOUNT_OPTIONS_ALLOWED",
    doc: "Mount options that a volume may ask for; a name that ends with = may have any value. Anything else ends the claim.",
    default: defaultAllowedOptions,
  }),
  mountOptionsForced: mountOptions({
    env: "HOLDFAST_MOUNT_OPTIONS_FORCED",
    doc: "Mount options that every file system has that a workload is given; what its plugin leaves out is added.",
    default: defaultForcedOptions,
  }),
  deadMounts: enumSetting({
    env: "HOLDFAST_DEAD_MOUNTS",
    doc: "What is done when the process that served a mount is gone: mounted anew, or only told.",
    values: ["restage", "report"],
    default: "restage",
  }),
  orphanMounts: enumSetting({
    env: "HOLDFAST_ORPHAN_MOUNTS",
    doc: "What is done with mounts below the root directory that the journal does not explain: told, or unmounted if unused.",
    values: ["report", "unmount"],
    default: "report",
  }),
  mountCheckInterval: durationSetting({
    env: "HOLDFAST_MOUNT_CHECK_INTERVAL",
    doc: "Between two looks at all that is published: is it there, does it answer?",
    min: 100,
    max: 3_600_000,
    default: 15_000,
  }),
  childTimeout: durationSetting({
    env: "HOLDFAST_CHILD_TIMEOUT",
    doc: "How long a helper process may take that touches a mounted volume, before it is killed.",
    min: 100,
    max: 120_000,
    default: 5_000,
  }),
  journalMaxBytes: intSetting({
    env: "HOLDFAST_JOURNAL_MAX_BYTES",
    doc: "Above it no permit is taken.",
    min: 1 << 20,
    default: 64 << 20,
  }),
  journalMinFreeBytes: intSetting({
    env: "HOLDFAST_JOURNAL_MIN_FREE_BYTES",
    doc: "So much is kept free on the disk of the journal for releases; below it no permit is taken.",
    min: 0,
    default: 16 << 20,
  }),
  stopGrace: durationSetting({
    env: "HOLDFAST_STOP_GRACE",
    doc: "How long calls to plugins may go on when the agent stops.",
    min: 0,
    max: 600_000,
    default: 10_000,
  }),
  failpoints,
});

export type AgentConfig = ConfigOf<typeof configSchema>;

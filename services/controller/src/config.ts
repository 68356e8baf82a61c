/** Every setting of the controller. Read once at start; all mistakes are told together. */
import { type ConfigOf, defineConfig } from "@holdfast/shared/config/config";
import { failpointSetting } from "@holdfast/shared/config/failpoint-setting";
import { auditSettings, questionSettings, serviceSettings } from "@holdfast/shared/config/service-settings";
import {
  addressSetting,
  boolSetting,
  durationSetting,
  intSetting,
  optional,
  pathSetting,
  stringSetting,
  tcpAddressSetting,
} from "@holdfast/shared/config/setting";
import { trustSettings } from "@holdfast/shared/config/trust-settings";
import { accessSettings } from "./access-settings.ts";
import { failpointNames } from "./failpoints.ts";
import { secretScopeSettings } from "./secrets/scope-settings.ts";
import { tokenSettings } from "./secrets/tokens/token-settings.ts";

const failpoints = failpointSetting(failpointNames, "For tests: where to kill the controller.");

const store = stringSetting({
  env: "HOLDFAST_STORE",
  doc: "redis://host:6379, redis+sentinel://host:26379,host:26379,…/master-name, redis+cluster://host:6379,host:6379,…, the same with rediss for TLS, or sqlite:///absolute/file; without it an SQLite file in the state directory.",
  pattern: /^(rediss?(\+(sentinel|cluster))?:\/\/.+|sqlite:\/\/\/.+)$/,
  hint: "has to be redis://host:port, rediss://host:port, redis+sentinel://host:port,…/master-name, redis+cluster://host:port,… or sqlite:///absolute/file",
  // It may hold a password.
  secret: true,
});

export const configSchema = defineConfig({
  listen: addressSetting({
    env: "HOLDFAST_LISTEN",
    doc: "Where schedulers reach this controller: host:port or unix:///path.",
    default: "127.0.0.1:7600",
  }),
  agentListen: addressSetting({
    env: "HOLDFAST_AGENT_LISTEN",
    doc: "Where the agents of nodes reach this controller: host:port or unix:///path. Each keeps one stream open to it.",
    default: "127.0.0.1:7602",
  }),
  adminListen: tcpAddressSetting({
    env: "HOLDFAST_ADMIN_LISTEN",
    doc: "Address of /metrics, /healthz and /readyz.",
    default: "127.0.0.1:7601",
  }),
  ...trustSettings,
  ...accessSettings,
  caDir: optional(
    pathSetting({
      env: "HOLDFAST_CA_DIR",
      doc: "Directory with tls.crt, tls.key and ca.crt of the authority that this controller issues certificates by, as `holdfast ca init` makes it; read for each certificate. Without it none are issued.",
    }),
  ),
  store: optional(store),
  storeMigrate: optional({
    ...store,
    env: "HOLDFAST_STORE_MIGRATE",
    doc: "Another identity at the same Redis, for loading functions and looking at its configuration.",
  }),
  storeCaFile: optional(
    pathSetting({
      env: "HOLDFAST_STORE_CA_FILE",
      doc: "PEM of the authorities that the certificate of a rediss:// store is checked by; without it, those of the system.",
    }),
  ),
  storeCertFile: optional(
    pathSetting({
      env: "HOLDFAST_STORE_CERT_FILE",
      doc: "PEM of the client certificate for a rediss:// store, with its chain. Like the other two files read for each connection.",
    }),
  ),
  storeKeyFile: optional(
    pathSetting({ env: "HOLDFAST_STORE_KEY_FILE", doc: "PEM of the key of that client certificate." }),
  ),
  storeServerName: optional(
    stringSetting({
      env: "HOLDFAST_STORE_SERVER_NAME",
      doc: "Name that the certificate of a rediss:// store has to bear, in place of the host of its address.",
      pattern: /^[A-Za-z0-9]([A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?$/,
      hint: "has to be a host name or an address",
    }),
  ),
  storeSentinelLogin: optional(
    stringSetting({
      env: "HOLDFAST_STORE_SENTINEL_LOGIN",
      doc: "What the sentinels of a redis+sentinel:// store want to know, where they want it: user:password, or :password.",
      pattern: /^[^:\s]*:.+$/,
      hint: "has to be user:password or :password",
      secret: true,
    }),
  ),
  storeDurable: boolSetting({
    env: "HOLDFAST_STORE_DECLARED_DURABLE",
    doc: "For a Redis that does not show its configuration: the operator's word that it keeps what it acknowledges.",
    default: false,
  }),
  allowVolatileStore: boolSetting({
    env: "HOLDFAST_ALLOW_VOLATILE_STORE",
    doc: "Start although the store may forget what it acknowledged. Only where losing volumes does not matter.",
    default: false,
  }),
  cell: stringSetting({
    env: "HOLDFAST_CELL",
    doc: "Which installation of several on one Redis.",
    pattern: /^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$/,
    hint: "has to be 1 to 32 of a-z, 0-9 and '-'",
    default: "default",
  }),
  pluginDir: pathSetting({
    env: "HOLDFAST_PLUGIN_DIR",
    doc: "Directory in which controller plugins show their sockets: <any>.sock or <any>/csi.sock.",
    default: "/run/holdfast/controller-plugins",
  }),
  stateDir: pathSetting({
    env: "HOLDFAST_STATE_DIR",
    doc: "Directory of this controller's own memory; one controller alone may use it.",
    default: "/var/lib/holdfast-controller",
  }),
  backup: optional(
    pathSetting({
      env: "HOLDFAST_BACKUP",
      doc: "Directory that this controller writes backups of the store to, best on another disk; it has to be there. None are written without it.",
    }),
  ),
  backupInterval: durationSetting({
    env: "HOLDFAST_BACKUP_INTERVAL",
    doc: "Between two backups.",
    min: 100,
    max: 7 * 24 * 3_600_000,
    default: 3_600_000,
  }),
  backupKeep: intSetting({
    env: "HOLDFAST_BACKUP_KEEP",
    doc: "How many of its backups a controller keeps; older ones are removed.",
    min: 1,
    max: 10_000,
    default: 48,
  }),
  secretKeys: optional(
    pathSetting({
      env: "HOLDFAST_SECRET_KEYS",
      doc: "File of the keys that stored secrets are encrypted with: one '<id> <32 bytes in base64>' a line, the newest first.",
    }),
  ),
  ...tokenSettings,
  ...secretScopeSettings,
  vaultAddress: optional(
    stringSetting({
      env: "HOLDFAST_VAULT_ADDRESS",
      doc: "Vault server for references like vault:mount/path: https://host:8200.",
      pattern: /^https?:\/\/[^\s/?#@]+\/?$/,
      hint: "has to be https://host:port or http://host:port",
    }),
  ),
  vaultTokenFile: optional(
    pathSetting({
      env: "HOLDFAST_VAULT_TOKEN_FILE",
      doc: "File with the token for Vault; read for each request, so that whoever renews it writes there.",
    }),
  ),
  vaultCaFile: optional(
    pathSetting({
      env: "HOLDFAST_VAULT_CA_FILE",
      doc: "PEM of the authorities that Vault's certificate is checked by.",
    }),
  ),
  vaultNamespace: optional(
    stringSetting({
      env: "HOLDFAST_VAULT_NAMESPACE",
      doc: "Vault's own namespace, where it has several.",
      pattern: /^[A-Za-z0-9_./-]{1,128}$/,
      hint: "has to be 1 to 128 of letters, digits, '_', '.', '/' and '-'",
    }),
  ),
  id: optional(
    stringSetting({
      env: "HOLDFAST_ID",
      doc: "Name of this controller in records and logs; a random one is kept in the state directory otherwise.",
      pattern: /^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$/,
      hint: "has to be 1 to 64 of a-z, 0-9, '.', '_' and '-'",
    }),
  ),
  linkGrace: durationSetting({
    env: "HOLDFAST_LINK_GRACE",
    doc: "How long a node stays READY while no controller has a stream of its agent.",
    min: 100,
    max: 60_000,
    default: 3_000,
  }),
  fencer: optional(
    stringSetting({
      env: "HOLDFAST_FENCER",
      doc: "Program (an absolute path) or service (http:// or https://) that switches a silent machine off, for volumes with `node_loss: fence`.",
      pattern: /^(\/[^\s]+|https?:\/\/[^\s#@]+)$/,
      hint: "has to be an absolute path, or http(s)://host:port/path",
    }),
  ),
  fencerAfter: durationSetting({
    env: "HOLDFAST_FENCER_AFTER",
    doc: "How long a node is silent before the fencer is asked.",
    min: 100,
    max: 24 * 3_600_000,
    default: 60_000,
  }),
  fencerTimeout: durationSetting({
    env: "HOLDFAST_FENCER_TIMEOUT",
    doc: "How long one answer of the fencer may take; without one by then nothing is fenced.",
    min: 100,
    max: 3_600_000,
    default: 120_000,
  }),
  sweepInterval: durationSetting({
    env: "HOLDFAST_SWEEP_INTERVAL",
    doc: "How long after one comparison of a backend with the records the next one begins; 0 is never.",
    min: 0,
    max: 7 * 24 * 3_600_000,
    default: 600_000,
  }),
  pluginEmptyAfter: durationSetting({
    env: "HOLDFAST_PLUGIN_EMPTY_AFTER",
    doc: "How long a plugin stays in the catalogue without an instance, a volume and a profile.",
    min: 60_000,
    max: 365 * 24 * 3_600_000,
    default: 3_600_000,
  }),
  conditionInterval: durationSetting({
    env: "HOLDFAST_CONDITION_INTERVAL",
    doc: "Between two looks at the condition of volumes, at each node and at each plugin that can tell.",
    min: 100,
    max: 24 * 3_600_000,
    default: 60_000,
  }),
  maxInFlight: intSetting({
    env: "HOLDFAST_MAX_IN_FLIGHT",
    doc: "Unary calls at once, those that wait included; more are refused with OVERLOADED.",
    min: 1,
    max: 100_000,
    default: 2_048,
  }),
  maxInFlightPerCaller: intSetting({
    env: "HOLDFAST_MAX_IN_FLIGHT_PER_CALLER",
    doc: "The same for one caller: one identity, or one address of those that have none.",
    min: 1,
    max: 100_000,
    default: 1_024,
  }),
  maxPerSecondPerCaller: intSetting({
    env: "HOLDFAST_MAX_CALLS_PER_SECOND_PER_CALLER",
    doc: "Calls that one caller begins in a second, with twice as many at once; more are refused with OVERLOADED.",
    min: 1,
    max: 1_000_000,
    default: 5_000,
  }),
  maxStreamsPerConnection: intSetting({
    env: "HOLDFAST_MAX_STREAMS_PER_CONNECTION",
    doc: "Calls at once on one connection, waiting ones and watches included; a client holds back those above, or opens another connection.",
    min: 1,
    max: 4_096,
    default: 100,
  }),
  maxConnections: intSetting({
    env: "HOLDFAST_MAX_CONNECTIONS",
    doc: "Open connections of schedulers and operators; those above are closed as they come.",
    min: 1,
    max: 100_000,
    default: 4_096,
  }),
  ...serviceSettings,
  ...questionSettings,
  ...auditSettings,
  stopGrace: durationSetting({
    env: "HOLDFAST_STOP_GRACE",
    doc: "How long running calls may go on when the controller stops.",
    min: 0,
    max: 600_000,
    default: 5_000,
  }),
  failpoints,
});

export type ControllerConfig = ConfigOf<typeof configSchema>;

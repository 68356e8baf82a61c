/** `main.ts check`: what would keep a controller with these settings from its work. Changes nothing, and may run beside it. */
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import path from "node:path";
import { systemClock } from "@holdfast/shared/async/clock";
import type { Environment } from "@holdfast/shared/config/config";
import { examineAudit } from "@holdfast/shared/doctor/examine-audit";
import { examineAuthority } from "@holdfast/shared/doctor/examine-authority";
import { examineCertificates } from "@holdfast/shared/doctor/examine-certificates";
import { examineListeners } from "@holdfast/shared/doctor/examine-listeners";
import { examineSockets } from "@holdfast/shared/doctor/examine-sockets";
import { examineStateDir } from "@holdfast/shared/doctor/examine-state-dir";
import { type Finding, fault, fine, warning } from "@holdfast/shared/doctor/finding";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { createSilentLogger } from "@holdfast/shared/log/silent-logger";
import { trustOf } from "./access-wiring.ts";
import type { ControllerConfig } from "./config.ts";
import { examineBackups } from "./doctor/examine-backups.ts";
import { examineRedis } from "./doctor/examine-redis.ts";
import { anyName } from "./domain/access/access-grant.ts";
import { nodeNamespacesOf } from "./domain/access/node-namespaces.ts";
import { createKeyFile } from "./secrets/key-file.ts";
import { forbiddenPlaces, unfitRoots } from "./secrets/root-check.ts";
import { createTokenKeyFile } from "./secrets/tokens/token-keys.ts";
import { createTokenSigner } from "./secrets/tokens/token-signer.ts";
import { accessOf, refuseUnfitAccess } from "./store/redis/redis-access.ts";
import { createStateFile } from "./store/state-file.ts";

const examineStore = async (config: ControllerConfig): Promise<readonly Finding[]> => {
  const url = config.store ?? `sqlite://${path.join(config.stateDir, "store.db")}`;
  const access = accessOf(config);
  refuseUnfitAccess([url, ...(config.storeMigrate === undefined ? [] : [config.storeMigrate])], access);
  if (!url.startsWith("sqlite://"))
    return await examineRedis({
      url,
      access,
      cell: config.cell,
      declaredDurable: config.storeDurable,
      clusterUid: createStateFile(config.stateDir, "store-cluster-uid").read(),
      log: createSilentLogger(),
      clock: systemClock,
      random: Math.random,
    });
  const file = url.slice("sqlite://".length);
  const place = await examineStateDir(path.dirname(file), "HOLDFAST_STORE");
  if (place.some(({ level }) => level === "fault"))
    return place.map((finding) => ({
      ...finding,
      id: finding.level === "fault" ? "store-file" : finding.id,
      subject: file,
    }));
  return [fine("store", file, existsSync(file) ? "is there" : "will be made")];
};

const examineOwnBackups = async (config: ControllerConfig): Promise<readonly Finding[]> => {
  const { backup: directory, backupInterval: intervalMs, cell } = config;
  if (directory !== undefined) return await examineBackups({ directory, cell, intervalMs, now: systemClock.now() });
  return [
    warning(
      "backup-none",
      "HOLDFAST_BACKUP",
      "is not set: a store that is lost is put together again from what the agents hold, and what they do not know is lost",
      "name a directory on another disk, or call holdfast export FILE by a timer",
    ),
  ];
};

const examineKeys = async ({ secretKeys }: ControllerConfig): Promise<readonly Finding[]> => {
  if (secretKeys === undefined) return [];
  try {
    const { byId } = await createKeyFile(secretKeys).keys();
    return [fine("secret-keys", secretKeys, `holds ${byId.size} keys`)];
  } catch (error) {
    return [
      fault(
        "secret-keys",
        secretKeys,
        isHoldfastError(error) ? error.message : String(error),
        `make it with: echo "k1 $(openssl rand -base64 32)" > ${secretKeys} && chmod 600 ${secretKeys}`,
      ),
    ];
  }
};

const examineTokens = async ({ tokenKeys, tokenIssuer }: ControllerConfig): Promise<readonly Finding[]> => {
  if (tokenKeys === undefined && tokenIssuer === undefined) return [];
  const signer = createTokenSigner({
    keyFile: createTokenKeyFile(tokenKeys),
    issuer: tokenIssuer,
    clock: systemClock,
    uuid: randomUUID,
  });
  const trouble = await signer.trouble();
  if (trouble === undefined)
    return [fine("token-keys", "HOLDFAST_TOKEN_KEYS", `holds ${(await signer.published()).length} keys`)];
  const made = 'echo "k1 $(openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -outform DER | base64 -w0)"';
  return [
    fault(
      "token-keys",
      "HOLDFAST_TOKEN_KEYS",
      `identity tokens cannot be signed: ${trouble}`,
      `a key file is made with: ${made} > FILE && chmod 600 FILE`,
    ),
  ];
};

const examineRoots = (config: ControllerConfig, env: Environment): readonly Finding[] => {
  const unfit = unfitRoots({ files: config.secretFiles }, forbiddenPlaces({ ...config, env }));
  return [
    ...unfit.map(({ description }) =>
      fault("secret-root", "HOLDFAST_SECRET_FILES", description, "name a directory that holds nothing but secrets"),
    ),
    ...config.secretFiles.map(({ name, dir }) =>
      existsSync(dir)
        ? fine("secret-root", dir, `is root ${name} of references file:${name}/…`)
        : warning(
            "secret-root",
            dir,
            `is not there, so that no reference file:${name}/… can be read`,
            `make it with: mkdir -m 0700 ${dir}`,
          ),
    ),
  ];
};

const examineAccess = ({ nodeNamespaces, tlsDir }: ControllerConfig): Finding => {
  const namespaces = nodeNamespacesOf(nodeNamespaces, trustOf({ tlsDir }) === "certificates");
  const where = namespaces.includes(anyName) ? "every namespace" : namespaces.join(", ");
  return fine("node-namespaces", "HOLDFAST_NODE_NAMESPACES", `agents may ask for claims in ${where || "no namespace"}`);
};

export const doctorFindings = async (config: ControllerConfig, env: Environment): Promise<readonly Finding[]> => [
  ...examineListeners({
    plain: [
      config.adminListen,
      ...(config.discoveryListen === undefined ? [] : [config.discoveryListen]),
      ...(config.tlsDir === undefined ? [config.listen, config.agentListen] : []),
    ],
    insecure: config.insecure,
  }),
  ...examineCertificates({
    at: config.tlsDir,
    setting: "HOLDFAST_TLS_DIR",
    wanted: "controller",
    now: systemClock.now(),
  }),
  ...(await examineAuthority({ at: config.caDir, tlsDir: config.tlsDir, now: systemClock.now() })),
  examineAccess(config),
  ...(await examineStateDir(config.stateDir, "HOLDFAST_STATE_DIR")),
  ...(await examineAudit(config)),
  ...(await examineStore(config)),
  ...(await examineSockets(config.pluginDir, "HOLDFAST_PLUGIN_DIR")),
  ...(await examineOwnBackups(config)),
  ...(await examineKeys(config)),
  ...(await examineTokens(config)),
  ...examineRoots(config, env),
];

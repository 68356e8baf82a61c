/**
 * The certificate that this agent shows to controllers: where it comes from, and that there is always one.
 *
 * LC1 An agent that has a certificate never enrols: a token in its settings is for a host that has none.
 */
import { readFile } from "node:fs/promises";
import { systemClock } from "@holdfast/shared/async/clock";
import { onAbort } from "@holdfast/shared/async/signals";
import { ConfigError } from "@holdfast/shared/config/config-error";
import { certifyBy } from "@holdfast/shared/grpc/certify";
import { enrol } from "@holdfast/shared/grpc/enrol";
import { isBeyondHost, parseAddress } from "@holdfast/shared/grpc/listen-address";
import { createChannelCredentials } from "@holdfast/shared/grpc/tls-credentials";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import { createCertificateKeeper } from "@holdfast/shared/trust/certificate-keeper";
import { hasCredentials, writeCredentials } from "@holdfast/shared/trust/credential-dir";
import { isDirectory } from "@holdfast/shared/trust/credential-files";
import { renewCertificate } from "@holdfast/shared/trust/renew-certificate";
import type { AgentConfig } from "./config.ts";

export interface OpenedCertificates {
  readonly config: Pick<AgentConfig, "tlsDir" | "node" | "controllers">;
  readonly log: Logger;
  readonly metrics?: Metrics;
  /** Aborted: the files are not looked at any more. */
  readonly signal: AbortSignal;
}

export interface LinkCertificates extends OpenedCertificates {
  readonly config: OpenedCertificates["config"] &
    Pick<AgentConfig, "tlsRenew" | "enrolTokenFile" | "enrolPin" | "proxy">;
}

const missing = (field: string, description: string): ConfigError => new ConfigError([{ field, description }]);

/** LC1. The first controller that answers has the token. */
const enrolFirst = async ({ config, log }: LinkCertificates): Promise<void> => {
  const { tlsDir, enrolTokenFile, enrolPin, node, controllers, proxy } = config;
  if (enrolTokenFile === undefined) return;
  if (tlsDir === undefined)
    throw missing("HOLDFAST_TLS_DIR", "is needed with HOLDFAST_ENROL_TOKEN_FILE: the certificate is written there");
  if (hasCredentials(tlsDir)) return;
  if (enrolPin === undefined)
    throw missing("HOLDFAST_ENROL_PIN", "is needed with HOLDFAST_ENROL_TOKEN_FILE: no token is sent without it");
  const token = (await readFile(enrolTokenFile, "utf8")).trim();
  let why: unknown;
  for (const address of controllers)
    try {
      const { texts } = await enrol({ address, pin: enrolPin, token, node, proxy, log });
      writeCredentials(tlsDir, texts);
      log.info("this host was enrolled", { controller: address, directory: tlsDir });
      return;
    } catch (error) {
      log.error("this host could not be enrolled", { controller: address, error });
      why = error;
    }
  throw why;
};

const wantedBy = ({ node }: Pick<AgentConfig, "node">) => ({ roles: ["node"], name: node }) as const;

const openKeeper = (path: string, { config, log, metrics, signal }: OpenedCertificates) => {
  const given = { path, setting: "HOLDFAST_TLS_DIR", wanted: wantedBy(config), log };
  const keeper = createCertificateKeeper({ ...given, ...(metrics === undefined ? {} : { metrics }) });
  onAbort(signal, keeper.stop);
  return keeper;
};

const warnOfPlain = ({ config, log }: OpenedCertificates): void => {
  const open = config.controllers.filter((address) => isBeyondHost(parseAddress(address)));
  if (open.length > 0)
    log.warn("controllers are dialled without TLS: whoever answers there is believed", { controllers: open });
};

/** As the files are now. Undefined where there is no TLS. Throws when they cannot be used. */
export const openCertificates = (parts: OpenedCertificates) => {
  const { tlsDir } = parts.config;
  if (tlsDir !== undefined) return createChannelCredentials(openKeeper(tlsDir, parts));
  warnOfPlain(parts);
  return undefined;
};

/** The same, for an agent that runs: it enrols first where it has to, and renews what it has. */
export const keepCertificates = async (parts: LinkCertificates) => {
  const { config, signal, log, metrics } = parts;
  const { tlsDir, tlsRenew, controllers, proxy } = config;
  await enrolFirst(parts);
  if (tlsDir === undefined) return openCertificates(parts);
  const keeper = openKeeper(tlsDir, parts);
  const credentials = createChannelCredentials(keeper);
  if (tlsRenew && isDirectory(tlsDir))
    renewCertificate({
      ...{ keeper, directory: tlsDir, wanted: wantedBy(config), log, metrics, signal },
      certify: (key) => certifyBy({ controllers, credentials, proxy, log }, key),
      clock: systemClock,
      random: Math.random,
    }).catch((error: unknown) => {
      if (!signal.aborted) log.error("the renewal of the certificate ended", { error });
    });
  return credentials;
};

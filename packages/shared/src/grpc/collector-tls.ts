/** TLS to a collector of traces: checked by authorities of its own, and with a certificate for it. */
import { readFileSync } from "node:fs";
import { Agent } from "node:https";
import { ConfigError } from "../config/config-error.ts";
import { createFreshCredentials, type TlsMaterial } from "./fresh-credentials.ts";

export interface CollectorFiles {
  readonly otlpCaFile?: string | undefined;
  readonly otlpCertFile?: string | undefined;
  readonly otlpKeyFile?: string | undefined;
}

const settings = {
  otlpCaFile: "HOLDFAST_OTLP_CA_FILE",
  otlpCertFile: "HOLDFAST_OTLP_CERT_FILE",
  otlpKeyFile: "HOLDFAST_OTLP_KEY_FILE",
} as const;

type Name = keyof typeof settings;

/** Throws for settings that would be accepted and do nothing. */
export function refuseUnfitCollector(endpoint: string | undefined, files: CollectorFiles): void {
  const given = (Object.keys(settings) as Name[]).filter((name) => files[name] !== undefined);
  const complain = (name: Name, description: string): never => {
    throw new ConfigError([{ field: settings[name], description }]);
  };
  const [first] = given;
  if (first !== undefined && endpoint?.startsWith("https://") !== true)
    complain(first, "is for a HOLDFAST_OTLP_ENDPOINT that begins with https://");
  if (files.otlpCertFile !== undefined && files.otlpKeyFile === undefined)
    complain("otlpCertFile", `needs ${settings.otlpKeyFile} as well`);
  if (files.otlpKeyFile !== undefined && files.otlpCertFile === undefined)
    complain("otlpKeyFile", `needs ${settings.otlpCertFile} as well`);
}

/** The files are read for each connection, so that a renewed certificate needs no restart. */
function material(files: CollectorFiles): TlsMaterial {
  const contentOf = (name: Name): string | undefined => {
    const file = files[name];
    if (file === undefined) return undefined;
    try {
      return readFileSync(file, "utf8");
    } catch (cause) {
      throw new ConfigError([{ field: settings[name], description: `= ${file} cannot be read: ${String(cause)}` }]);
    }
  };
  const [ca, cert, key] = [contentOf("otlpCaFile"), contentOf("otlpCertFile"), contentOf("otlpKeyFile")];
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  };
}

export const collectorCredentials = (files: CollectorFiles) => createFreshCredentials(() => material(files));

export function collectorAgent(files: CollectorFiles): Agent {
  material(files);
  const agent = new Agent({ keepAlive: true });
  const connect = agent.createConnection.bind(agent);
  return Object.assign(agent, {
    createConnection: ((options, callback) =>
      connect({ ...options, ...material(files), minVersion: "TLSv1.3" }, callback)) as typeof connect,
  });
}

/**
 * What this host has and no copy of it: with it a controller knows another boot of the same host from a clone, and takes the new life for
 * the node without a person.
 *
 * HP1 Two values never stand for one another by where they come from: the source is part of the identity. HP2 What is told is a digest: a
 * program may print what is nobody else's business. HP3 A value that many hosts share proves nothing, and none is told in its place.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { bareEnvironment } from "@holdfast/shared/bare-environment";
import { ConfigError } from "@holdfast/shared/config/config-error";
import { systemFacts } from "./host-identity.ts";

export interface HostProof {
  /** Empty: there is none, and a boot cannot be told from a clone. */
  readonly identity: string;
  /** For people: where it comes from, or why there is none. */
  readonly from: string;
}

export interface ProofSources {
  /** undefined = it cannot be read. */
  read(file: string): Promise<string | undefined>;
  /** What the program prints; rejects when it fails. */
  run(program: string): Promise<string>;
}

const dmiFile = "/sys/class/dmi/id/product_uuid";
const programMs = 10_000;
const mostBytes = 1_024;

export const systemSources: ProofSources = {
  read: systemFacts.read,
  run: (program) =>
    new Promise((resolve, reject) => {
      const bounds = { timeout: programMs, killSignal: "SIGKILL", maxBuffer: mostBytes } as const;
      execFile(program, [], { ...bounds, env: bareEnvironment }, (error, stdout) => {
        if (error === null) resolve(stdout);
        else reject(error);
      });
    }),
};

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** What boards are delivered with when nobody has set theirs. */
const shared: ReadonlySet<string> = new Set([
  "03000200-0400-0500-0006-000700080009",
  "00020003-0004-0005-0006-000700080009",
  "12345678-1234-5678-90ab-cddeefaabbcc",
]);
const ofOneHost = (id: string): boolean => uuid.test(id) && !shared.has(id) && new Set(id.replaceAll("-", "")).size > 2; // HP3

const proof = (source: string, value: string, from: string): HostProof => ({
  identity: createHash("sha256").update(`${source}\n${value}`).digest("hex").slice(0, 32), // HP1, HP2
  from,
});

const refused = (description: string): ConfigError =>
  new ConfigError([{ field: "HOLDFAST_HOST_IDENTITY", description }]);

const named = (source: string, text: string | undefined, from: string): HostProof => {
  const value = text?.trim() ?? "";
  if (value === "") throw refused(`names ${from}, which tells nothing; it has to tell what no copy of this host has`);
  if (Buffer.byteLength(value) > mostBytes) throw refused(`names ${from}, which tells more than ${mostBytes} bytes`);
  return proof(source, value, from);
};

const fromDmi = async ({ read }: ProofSources): Promise<HostProof> => {
  const id = (await read(dmiFile))?.trim().toLowerCase();
  if (id === undefined) return { identity: "", from: `${dmiFile} cannot be read` };
  return ofOneHost(id) ? proof("dmi", id, dmiFile) : { identity: "", from: `${dmiFile} has the value of many hosts` };
};

export async function readHostProof(
  setting: string | undefined,
  sources: ProofSources = systemSources,
): Promise<HostProof> {
  if (setting === undefined) return fromDmi(sources);
  if (setting === "none") return { identity: "", from: "HOLDFAST_HOST_IDENTITY is none" };
  const [, source, place = ""] = /^(file|exec):(.*)$/s.exec(setting) ?? [];
  if (source === undefined) return named("value", setting, "a value");
  if (source === "file") return named(source, await sources.read(place), place);
  const printed = await sources.run(place).catch((error: unknown) => {
    throw refused(
      `names the program ${place}, which failed: ${error instanceof Error ? error.message : String(error)}`,
    );
  });
  return named(source, printed, place);
}

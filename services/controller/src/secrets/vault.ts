/**
 * Secrets of a Vault server, engine KV version 2: "vault:<mount>/<path>", "@version" for one of its versions. Nothing is kept.
 *
 * V1 The token is read from its file for every request: whoever renews it writes there. V2 Neither token nor answer is in an error. V3 A
 * redirect is not followed: the token is for the configured server alone. V4 What comes late, or is too long, is cut off. V5 What Vault says of
 * one path is for the log alone: SecretUnusable, not SECRET_UNREADABLE.
 */
import { readFile } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { SecretUnusable } from "./secret-unusable.ts";

export interface VaultReading {
  readonly values: unknown;
  readonly version: string;
}

export interface Vault {
  /** undefined: Vault has no such secret, or not that version of it. Rejects with SECRET_UNREADABLE, or SecretUnusable for this path. */
  read(path: string, version: number | undefined): Promise<VaultReading | undefined>;
}

export interface VaultOptions {
  /** http(s)://host:port; undefined = there is none. */
  readonly address: string | undefined;
  readonly tokenFile: string | undefined;
  /** PEM of the authorities to trust instead of the system's. */
  readonly caFile?: string | undefined;
  readonly namespace?: string | undefined;
  readonly timeoutMs?: number;
}

const maxAnswerBytes = 256 * 1024;

const unreadable = (why: string): HoldfastError =>
  new HoldfastError({ kind: "unavailable", reason: "SECRET_UNREADABLE", message: why });

const codeOf = (error: unknown): string =>
  typeof error === "object" && error !== null && "code" in error ? String(error.code) : "unknown error";

interface Answer {
  readonly status: number;
  readonly body: string;
}

const get = (url: URL, headers: Record<string, string>, ca: string | undefined, timeoutMs: number): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const send = url.protocol === "https:" ? httpsRequest : httpRequest;
    const signal = AbortSignal.timeout(timeoutMs); // V4
    const broken = (bytes: number, code: string): Error => {
      if (bytes > maxAnswerBytes)
        return new SecretUnusable(`the answer of Vault at ${url.origin} is longer than ${maxAnswerBytes} bytes`);
      const why = signal.aborted ? `no answer within ${timeoutMs} ms` : code; // V2
      return unreadable(`Vault at ${url.origin} does not answer (${why})`);
    };
    let bytes = 0;
    const sent = send(url, { headers, signal, agent: false, ...(ca === undefined ? {} : { ca }) }, (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => {
        bytes += part.length;
        parts.push(part);
        if (bytes > maxAnswerBytes) response.destroy(new Error("too long")); // V4
      });
      response.on("error", (error) => reject(broken(bytes, codeOf(error))));
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, body: Buffer.concat(parts).toString("utf8") }),
      );
    });
    sent.on("error", (error) => reject(broken(bytes, codeOf(error))));
    sent.end();
  });

const field = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;

const parsed = (body: string): VaultReading | undefined => {
  try {
    const data = field(JSON.parse(body), "data");
    const metadata = field(data, "metadata");
    const values = field(data, "data");
    if (values === undefined || values === null) return undefined;
    return { values, version: `${String(field(metadata, "version"))} ${String(field(metadata, "created_time"))}` };
  } catch {
    throw new SecretUnusable("the answer of Vault is no JSON"); // V2
  }
};

/** What a status says, for a person. 404 is no failure: the secret is not there. */
const complaints: Readonly<Record<number, string>> = {
  429: "it is asked too often, or is a standby",
  472: "it is a secondary that takes no reads",
  503: "it is sealed or in maintenance",
};

export const createVault = (options: VaultOptions): Vault => {
  const { address, tokenFile, caFile, namespace, timeoutMs = 5_000 } = options;

  const text = async (file: string, what: string): Promise<string> => {
    try {
      return await readFile(file, "utf8");
    } catch (error) {
      throw unreadable(`${what} ${file} cannot be read by this controller (${codeOf(error)})`);
    }
  };

  return {
    async read(path, version) {
      if (address === undefined || tokenFile === undefined)
        throw unreadable("no Vault is configured; set HOLDFAST_VAULT_ADDRESS and HOLDFAST_VAULT_TOKEN_FILE");
      const token = (await text(tokenFile, "the token file")).trim(); // V1
      const ca = caFile === undefined ? undefined : await text(caFile, "the file of authorities");
      const [mount = "", ...rest] = path.split("/");
      const url = new URL(`v1/${mount}/data/${rest.join("/")}`, address.endsWith("/") ? address : `${address}/`);
      if (version !== undefined) url.searchParams.set("version", String(version));
      const headers = {
        "x-vault-token": token,
        "x-vault-request": "true",
        ...(namespace === undefined ? {} : { "x-vault-namespace": namespace }),
      };
      const { status, body } = await get(url, headers, ca, timeoutMs);
      if (status === 404) return undefined;
      if (status === 400 || status === 403 || status === 405)
        throw new SecretUnusable(
          `Vault at ${url.origin} answered ${status}: it refuses the token of HOLDFAST_VAULT_TOKEN_FILE for this path, or has no KV 2 there`,
        ); // V5
      if (status !== 200)
        throw unreadable(`Vault at ${url.origin} answered ${status}: ${complaints[status] ?? "see its log"}`); // V3
      return parsed(body);
    },
  };
};

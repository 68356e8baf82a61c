/** The authority of an installation, as files: nothing here asks a controller. */
import { X509Certificate } from "node:crypto";
import { existsSync } from "node:fs";
import path from "node:path";
import {
  type Authority,
  AuthorityProblem,
  checkAuthority,
  createIssuing,
  createRoot,
  issueLeaf,
  issuingTtlMs,
  leafTtlMs,
  readAuthority,
} from "@holdfast/shared/trust/authority";
import { writeCredentials } from "@holdfast/shared/trust/credential-dir";
import { type CredentialTexts, isUnusable, readCredentialTexts } from "@holdfast/shared/trust/credential-files";
import { isUnfit, type Leaf, readLeaf } from "@holdfast/shared/trust/leaf";
import { generateKey } from "@holdfast/shared/trust/make-certificate";
import { formatSpiffeId, namesThereAre, parseCertifiedName, type SpiffeId } from "@holdfast/shared/trust/spiffe-id";
import { CliFailure } from "../../frame/cli-failure.ts";
import type { Command, Input } from "../../frame/command.ts";
import type { Context } from "../../frame/context.ts";
import { exitCodes } from "../../frame/exit-code.ts";
import { detailsText } from "../../frame/tables.ts";
import { millisOf, usage } from "../option-words.ts";

const rootDir = (dir: string): string => path.join(dir, "root");

/** Controllers have the issuing part alone, wherever that is. */
const issuingDir = (dir: string): string => {
  const within = path.join(dir, "issuing");
  return existsSync(within) ? within : dir;
};

const dirOption = {
  flags: "--dir <dir>",
  help: "the authority's directory, as ca init made it",
  required: true,
  completes: "file",
} as const;
const ttlOption = (what: string) => ({ flags: "--ttl <duration>", help: `how long ${what}` });

const failed = (message: string, next: readonly string[] = []): CliFailure =>
  new CliFailure({ exitCode: exitCodes.refused, reason: "CA_UNUSABLE", message, next });

/** What the disk or the authority refuses is told in words, with the directory that it is about. */
const about = async <T>(dir: string, act: () => Promise<T>): Promise<T> => {
  try {
    return await act();
  } catch (error) {
    if (error instanceof AuthorityProblem) throw failed(`${dir}: ${error.message}`);
    if (error instanceof Error && "syscall" in error) throw failed(`${dir}: ${error.message}`);
    throw error;
  }
};

const read = (dir: string, next: string): CredentialTexts => {
  const texts = readCredentialTexts(dir);
  if (isUnusable(texts)) throw failed(`${dir} holds no usable tls.crt, tls.key and ca.crt: ${texts.wrong}`, [next]);
  return texts;
};

const leafIn = (pem: string): Leaf => {
  const leaf = readLeaf(new X509Certificate(pem).raw);
  if (isUnfit(leaf)) throw new AuthorityProblem(`tls.crt names nobody: ${leaf.wrong}`);
  return leaf;
};

const ttlOf = (input: Input, otherwise: number): number => {
  const text = input.text("ttl");
  const ms = text === undefined ? otherwise : millisOf("--ttl", text);
  if (ms < 60_000) throw usage(`--ttl ${text}: has to be at least 1m`);
  return ms;
};

/** One answer in both forms: fields for programs, lines for people. */
const tell = ({ io, out }: Context, fields: Readonly<Record<string, string>>, labels: readonly string[]): void => {
  const entries = Object.entries(fields);
  io.stdout.write(
    out.json
      ? `${JSON.stringify(fields, undefined, 2)}\n`
      : detailsText(entries.map(([, value], i) => [labels[i] ?? "", value])),
  );
};

const tellAuthority = (context: Context, dir: string, { trustDomain, pin, notAfter }: Authority): void =>
  tell(context, { trustDomain, pin, notAfter: new Date(notAfter).toISOString(), dir }, [
    "Trust domain",
    "Pin",
    "Issues until",
    "For controllers",
  ]);

const initCa: Command = {
  path: ["ca", "init"],
  summary: "make an authority for certificates",
  description:
    "DIR/root is the root, for ten years: take it offline, and bring it back for `ca renew`. DIR/issuing is what controllers have as HOLDFAST_CA_DIR; it issues for 90 days at most. An authority of your own (SPIRE, cert-manager, Vault) makes both needless.",
  options: [
    { flags: "--trust-domain <domain>", help: "in every name: spiffe://<domain>/csi/…", required: true },
    { ...dirOption, help: "where to make it" },
    ttlOption("it issues, 90d at most"),
  ],
  examples: [
    { line: "holdfast ca init --trust-domain prod.example --dir /secure/ca", says: "a root, and what issues for it" },
  ],
  async run(context, input) {
    const dir = input.text("dir") ?? "";
    const [root, issuing] = [rootDir(dir), path.join(dir, "issuing")];
    await about(dir, async () => {
      if ([root, issuing].some((part) => existsSync(part)))
        throw failed(`${dir} has an authority already, and certificates of it may be in use`, [
          `holdfast ca renew --dir ${dir}`,
        ]);
      const now = context.io.now();
      const made = await createRoot(input.text("trust-domain") ?? "", now);
      const issues = await createIssuing(made, ttlOf(input, issuingTtlMs), now);
      writeCredentials(root, made);
      writeCredentials(issuing, issues);
      tellAuthority(context, issuing, await checkAuthority(issues, { now }));
    });
    context.out.note(`the key of the root is ${root}/tls.key: keep it offline`);
  },
};

const issueTo = async (context: Context, input: Input, identity: Pick<SpiffeId, "role" | "name">): Promise<void> => {
  const [dir, out] = [issuingDir(input.text("dir") ?? ""), input.text("out") ?? ""];
  const authority = await about(dir, () => readAuthority(dir, { now: context.io.now() }));
  const key = generateKey();
  const wish = { identity, key, ttlMs: ttlOf(input, leafTtlMs), now: context.io.now() };
  const chain = await issueLeaf(authority, wish);
  await about(out, async () => writeCredentials(out, { chain, key, roots: authority.roots }));
  const { id, serial, notAfter } = leafIn(chain[0] ?? "");
  const fields = { name: formatSpiffeId(id), serial, notAfter: new Date(notAfter).toISOString(), dir: out };
  tell(context, fields, ["Name", "Serial", "Valid until", "Directory"]);
};

const issueCa: Command = {
  path: ["ca", "issue"],
  summary: "issue a certificate, with a new key",
  description:
    "Writes tls.key, tls.crt and ca.crt; all three change at once. Nodes have theirs from `node token` and `agent enrol`, so that their keys never leave them.",
  args: [{ name: "identity", help: "controller/ID, node/NAME, scheduler/NAME, operator/NAME or monitor" }],
  options: [
    dirOption,
    { flags: "--out <dir>", help: "where to write it", required: true, completes: "file" },
    ttlOption("it is valid, 24h without it; it ends with the authority"),
  ],
  examples: [
    { line: "holdfast ca issue controller/c-1 --dir /secure/ca --out /etc/holdfast/tls", says: "for a controller" },
    {
      line: "holdfast ca issue operator/ada --dir /secure/ca --out ~/.config/holdfast/tls --ttl 8h",
      says: "for a day",
    },
  ],
  async run(context, input) {
    const text = input.arg("identity");
    const identity = parseCertifiedName(text);
    if (identity === undefined) throw usage(`${text}: there are ${namesThereAre}`);
    await issueTo(context, input, identity);
  },
};

const renewLeaf = async (context: Context, input: Input, out: string): Promise<void> => {
  const old = read(out, `holdfast ca issue <role/name> --dir ${input.text("dir")} --out ${out}`);
  const { id } = await about(out, async () => leafIn(old.chain[0] ?? ""));
  await issueTo(context, input, id);
};

const renewCa: Command = {
  path: ["ca", "renew"],
  summary: "renew what issues, or with --out a certificate",
  description:
    "Without --out a new issuing authority, by the root in DIR/root: copy DIR/issuing to the controllers, which read it for each certificate. What the one before issued stays valid, as each certificate brings those that lead to the root. With --out the certificate there is issued anew, with the same name and a new key.",
  options: [
    dirOption,
    { flags: "--out <dir>", help: "the certificate to renew", completes: "file" },
    ttlOption("it is valid; 90d, or 24h with --out"),
  ],
  examples: [
    { line: "holdfast ca renew --dir /secure/ca", says: "every 60 days or so" },
    { line: "holdfast ca renew --dir /secure/ca --out /etc/holdfast/tls", says: "a certificate that is about to end" },
  ],
  async run(context, input) {
    const out = input.text("out");
    if (out !== undefined) return await renewLeaf(context, input, out);
    const dir = input.text("dir") ?? "";
    const root = read(rootDir(dir), `bring ${rootDir(dir)} back from where it is kept offline`);
    await about(dir, async () => {
      const now = context.io.now();
      const issues = await createIssuing(root, ttlOf(input, issuingTtlMs), now);
      const issuing = path.join(dir, "issuing");
      writeCredentials(issuing, issues);
      tellAuthority(context, issuing, await checkAuthority(issues, { now }));
    });
  },
};

export const caCommands: readonly Command[] = [initCa, issueCa, renewCa];

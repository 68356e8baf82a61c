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
import { hasCredentials, writeCredentials } from "@holdfast/shared/trust/credential-dir";
import { type CredentialTexts, isUnusable, readCredentialTexts } from "@holdfast/shared/trust/credential-files";
import { judgeCredentials } from "@holdfast/shared/trust/judge-credentials";
import { isUnfit, type Leaf, readLeaf } from "@holdfast/shared/trust/leaf";
import { generateKey } from "@holdfast/shared/trust/make-certificate";
import { formatSpiffeId, namesThereAre, parseCertifiedName, type SpiffeId } from "@holdfast/shared/trust/spiffe-id";
import { CliFailure } from "../../frame/cli-failure.ts";
import type { Command, Input } from "../../frame/command.ts";
import type { Context } from "../../frame/context.ts";
import { exitCodes } from "../../frame/exit-code.ts";
import { detailsText } from "../../frame/tables.ts";
import { millisOf, usage } from "../option-words.ts";

type SpiffeName = Pick<SpiffeId, "role" | "name">;

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

const keepOption = {
  flags: "--unless-valid <duration>",
  help: "do nothing where what is there is valid for so long yet",
} as const;

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

/** Whether what ends then is good enough, by --unless-valid. */
const isKept = (context: Context, input: Input, notAfter: number | undefined): boolean => {
  const text = input.text("unless-valid");
  if (text === undefined) return false;
  const needed = context.io.now() + millisOf("--unless-valid", text);
  return notAfter !== undefined && notAfter >= needed;
};

/** When the certificate there ends, if it is one of this name and leads to the root of this authority. */
const endOfHeld = (out: string, { roots }: Authority, { role, name }: SpiffeName): number | undefined => {
  const texts = readCredentialTexts(out);
  if (isUnusable(texts)) return undefined;
  const judged = judgeCredentials({ ...texts, roots }, { roles: [role], name });
  return isUnusable(judged) ? undefined : judged.notAfter;
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
      if ([root, issuing].some(hasCredentials))
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

const tellLeaf = (context: Context, out: string, chain: readonly string[]): void => {
  const { id, serial, notAfter } = leafIn(chain[0] ?? "");
  const fields = { name: formatSpiffeId(id), serial, notAfter: new Date(notAfter).toISOString(), dir: out };
  tell(context, fields, ["Name", "Serial", "Valid until", "Directory"]);
};

const issueTo = async (context: Context, input: Input, identity: SpiffeName): Promise<void> => {
  const [dir, out] = [issuingDir(input.text("dir") ?? ""), input.text("out") ?? ""];
  const authority = await about(dir, () => readAuthority(dir, { now: context.io.now() }));
  if (isKept(context, input, endOfHeld(out, authority, identity))) return tellLeaf(context, out, read(out, "").chain);
  const key = generateKey();
  const wish = { identity, key, ttlMs: ttlOf(input, leafTtlMs), now: context.io.now() };
  const chain = await issueLeaf(authority, wish);
  await about(out, async () => writeCredentials(out, { chain, key, roots: authority.roots }));
  tellLeaf(context, out, chain);
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
    keepOption,
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

/** undefined: nothing there issues now. */
const heldAuthority = async (dir: string, now: number): Promise<Authority | undefined> => {
  try {
    return await readAuthority(dir, { now });
  } catch (error) {
    if (error instanceof AuthorityProblem) return undefined;
    throw error;
  }
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
    keepOption,
  ],
  examples: [
    {
      line: "holdfast ca renew --dir /secure/ca --unless-valid 60d",
      says: "in a timer: every 30 days something happens",
    },
    { line: "holdfast ca renew --dir /secure/ca --out /etc/holdfast/tls", says: "a certificate that is about to end" },
  ],
  async run(context, input) {
    const out = input.text("out");
    if (out !== undefined) return await renewLeaf(context, input, out);
    const dir = input.text("dir") ?? "";
    const issuing = path.join(dir, "issuing");
    const held = await heldAuthority(issuing, context.io.now());
    if (held !== undefined && isKept(context, input, held.notAfter)) return tellAuthority(context, issuing, held);
    const root = read(rootDir(dir), `bring ${rootDir(dir)} back from where it is kept offline`);
    await about(dir, async () => {
      const now = context.io.now();
      const issues = await createIssuing(root, ttlOf(input, issuingTtlMs), now);
      writeCredentials(issuing, issues);
      tellAuthority(context, issuing, await checkAuthority(issues, { now }));
    });
  },
};

export const caCommands: readonly Command[] = [initCa, issueCa, renewCa];

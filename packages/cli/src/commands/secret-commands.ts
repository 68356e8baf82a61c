import { DeleteSecretResponse, ListSecretsResponse, PutSecretResponse } from "@holdfast/shared/gen/holdfast/v1/secret";
import { parse } from "yaml";
import { boundedYaml } from "../frame/bounded-text.ts";
import { CliFailure } from "../frame/cli-failure.ts";
import type { Command } from "../frame/command.ts";
import { answerList, listOptions } from "../frame/list-answer.ts";
import { answerOne, oneOption } from "../frame/one-answer.ts";
import { shown } from "../frame/output.ts";
import { readText } from "../spec/read-spec.ts";
import { ago } from "../words/moment.ts";
import { allRows, pageSize } from "./all-pages.ts";
import { usage } from "./option-words.ts";

const secretArg = { name: "secret", help: "the secret's name", completes: "secret" } as const;

/** Values never come from the command line: other users of the host read those, and shells keep them. */
const valuesOf = (text: string, from: string): Record<string, string> => {
  let content: unknown;
  try {
    content = parse(boundedYaml(text, from));
  } catch (error) {
    if (error instanceof CliFailure) throw error;
    // The library's message repeats the line, and the line may hold a value.
    throw usage(`${from} is neither YAML nor JSON`);
  }
  const entries =
    typeof content === "object" && content !== null && !Array.isArray(content) ? Object.entries(content) : [];
  const odd = entries.filter(([, value]) => typeof value !== "string").map(([key]) => key);
  if (entries.length === 0) throw usage(`${from} has to hold values by name, such as "user: admin"`);
  if (odd.length > 0)
    throw usage(`${from}: ${odd.join(", ")} ${odd.length === 1 ? "has" : "have"} to be text; put it in quotes`);
  return Object.fromEntries(entries) as Record<string, string>;
};

export const putSecret: Command = {
  path: ["secret", "put"],
  summary: "write a new version of a secret",
  description:
    "From a YAML or JSON file of names and values; values never come back. A volume refers to it as secret:NAME.",
  args: [secretArg, { name: "file", help: "names and values; - reads standard input", completes: "file" }],
  options: [oneOption],
  examples: [{ line: "holdfast secret put backend-login login.yaml", says: "the newest version from now on" }],
  async run(context, input) {
    const { clients, settings, out } = context;
    const file = input.arg("file");
    const text = await readText(context, file);
    const values = valuesOf(text, file === "-" ? "standard input" : file);
    const answer = await clients.secrets.putSecret({
      namespace: settings.namespace,
      name: input.arg("secret"),
      values,
    });
    answerOne(out, input, {
      answer: shown("holdfast.v1.PutSecretResponse", PutSecretResponse, answer),
      names: [input.arg("secret")],
      people: () => `${settings.namespace}/${input.arg("secret")} has version ${answer.version}\n`,
    });
  },
};

export const deleteSecret: Command = {
  path: ["secret", "delete"],
  summary: "remove a secret, or one version of it",
  args: [secretArg],
  options: [{ flags: "--version-number <number>", help: "only this version" }],
  examples: [{ line: "holdfast secret delete backend-login", says: "refused while something refers to it" }],
  async run({ clients, settings, out }, input) {
    const version = input.text("version-number") ?? "0";
    if (!/^\d+$/.test(version)) throw usage(`--version-number ${version}: has to be a whole number`);
    const request = { namespace: settings.namespace, name: input.arg("secret"), version: BigInt(version) };
    const answer = await clients.secrets.deleteSecret(request);
    out.answer(shown("holdfast.v1.DeleteSecretResponse", DeleteSecretResponse, answer), () =>
      answer.absent
        ? `no secret ${request.namespace}/${request.name}${version === "0" ? "" : ` with version ${version}`} is known: nothing was deleted (holdfast secret list)\n`
        : `${request.namespace}/${request.name} is gone\n`,
    );
  },
};

export const listSecrets: Command = {
  path: ["secret", "list"],
  summary: "list secrets: names, versions and keys, no values",
  args: [{ name: "prefix", help: "only names that begin like this", optional: true }],
  options: listOptions,
  examples: [{ line: "holdfast secret list", says: "all of the namespace" }],
  async run(context, input) {
    const request = { namespace: context.settings.namespace, namePrefix: input.optionalArg("prefix") ?? "" };
    await answerList(context, input, {
      read: () =>
        allRows(
          (pageToken) => context.clients.secrets.listSecrets({ ...request, pageSize, pageToken }),
          ({ secrets }) => secrets,
        ),
      answer: (secrets) =>
        shown("holdfast.v1.ListSecretsResponse", ListSecretsResponse, { secrets: [...secrets], nextPageToken: "" }),
      columns: (now) => [
        { title: "NAME", of: ({ name }) => name },
        { title: "VERSIONS", of: ({ versions }) => versions.map(({ version }) => String(version)).join(",") },
        { title: "KEYS", of: ({ versions }) => versions.at(-1)?.keys.join(",") || "-" },
        { title: "WRITTEN", of: ({ versions }) => ago(versions.at(-1)?.createdAt, now) },
      ],
      name: ({ name }) => name,
      none: "no secret\n",
    });
  },
};

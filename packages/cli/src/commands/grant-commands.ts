import {
  DeleteGrantResponse,
  GetGrantResponse,
  type Grant,
  ListGrantsResponse,
  SetGrantResponse,
} from "@holdfast/shared/gen/holdfast/v1/grant";
import { readPem } from "@holdfast/shared/trust/pem";
import type { Command, Input } from "../frame/command.ts";
import type { Context } from "../frame/context.ts";
import { answerList, listOptions } from "../frame/list-answer.ts";
import { answerOne, oneOption } from "../frame/one-answer.ts";
import { shown } from "../frame/output.ts";
import { type Column, tableText } from "../frame/tables.ts";
import { readText } from "../spec/read-spec.ts";
import { allRows, pageSize } from "./all-pages.ts";
import { usage } from "./option-words.ts";
import { reasonOption } from "./repair/repair-verb.ts";

const namesOf = (input: Input, option: string): string[] =>
  (input.text(option) ?? "").split(",").flatMap((name) => (name.trim() === "" ? [] : [name.trim()]));

const listed = (names: readonly string[]): string => (names.length === 0 ? "-" : names.join(","));

/** Of the PEM blocks in a file, or of its JWK or set of JWKs. A private key never leaves for a controller. */
const ticketKeysFrom = async (context: Context, file: string | undefined): Promise<string[]> => {
  if (file === undefined) return [];
  const text = await readText(context, file);
  if (/PRIVATE KEY|"(d|k)"\s*:/.test(text))
    throw usage(
      `${file} holds a private key, which the scheduler alone should have; nothing was sent. Name a file of public keys: openssl pkey -in KEY -pubout`,
    );
  const keys = text.trimStart().startsWith("{") ? jwksIn(text) : readPem(text)?.map((block) => block.text);
  if (keys === undefined || keys.length === 0)
    throw usage(`${file} has to hold PEM blocks PUBLIC KEY, a JWK or a set of JWKs`);
  return keys;
};

const jwksIn = (text: string): string[] | undefined => {
  try {
    const parsed = JSON.parse(text) as { readonly keys?: unknown };
    const found: readonly unknown[] = Array.isArray(parsed.keys) ? parsed.keys : [parsed];
    return found.map((jwk) => JSON.stringify(jwk));
  } catch {
    return undefined;
  }
};

const keyIdOf = (jwk: string): string => {
  const { kid } = JSON.parse(jwk) as { readonly kid?: unknown };
  return String(kid);
};

const grantColumns: readonly Column<Grant>[] = [
  { title: "SCHEDULER", of: ({ scheduler }) => scheduler },
  { title: "NAMESPACES", of: ({ namespaces }) => listed(namespaces) },
  { title: "PLUGINS", of: ({ plugins }) => listed(plugins) },
  { title: "SECRET ROOTS", of: ({ secretRoots }) => listed(secretRoots) },
  { title: "TICKET KEYS", of: ({ ticketKeys }) => listed(ticketKeys.map(keyIdOf)) },
];

const oneGrant = ({ grant }: { readonly grant?: Grant | undefined }): string =>
  tableText(grantColumns, grant === undefined ? [] : [grant]);

const schedulerArg = { name: "scheduler", help: "the name in its identity" };

const setGrant: Command = {
  path: ["grant", "set"],
  summary: "say what a scheduler may use",
  description: "This is all of it: what is not named is granted no more. What the scheduler has already stays.",
  args: [schedulerArg],
  options: [
    { flags: "--namespaces <names>", help: "separated by commas", required: true },
    { flags: "--plugins <names>", help: "that it may make volumes with, separated by commas; '*' is every one" },
    {
      flags: "--secret-roots <roots>",
      help: "that it may refer to, such as file:shop,env:SHOP_,vault:kv/shop; '*' is each of its namespaces",
    },
    {
      flags: "--ticket-keys <file>",
      help: "its public keys (PEM, JWK or JWKS): agents then need a ticket of it in these namespaces; - reads standard input",
      completes: "file",
    },
    reasonOption,
    oneOption,
  ],
  examples: [
    {
      line: "holdfast grant set nomad --namespaces shop,web --plugins '*' --reason \"as ordered\"",
      says: "no secrets but stored ones",
    },
    {
      line: 'holdfast grant set nomad --namespaces shop --ticket-keys nomad.pub --reason "tickets"',
      says: "agents ask for claims in shop by its tickets alone",
    },
  ],
  async run(context, input) {
    const { clients, out } = context;
    const ticketKeys = await ticketKeysFrom(context, input.text("ticket-keys"));
    const answer = await clients.grants.setGrant({
      scheduler: input.arg("scheduler"),
      namespaces: namesOf(input, "namespaces"),
      plugins: namesOf(input, "plugins"),
      secretRoots: namesOf(input, "secret-roots"),
      ticketKeys,
      reason: input.text("reason") ?? "",
    });
    answerOne(out, input, {
      answer: shown("holdfast.v1.SetGrantResponse", SetGrantResponse, answer),
      names: [input.arg("scheduler")],
      people: () => oneGrant(answer),
    });
  },
};

const showGrant: Command = {
  path: ["grant", "show"],
  summary: "show what a scheduler may use",
  args: [schedulerArg],
  options: [oneOption],
  examples: [{ line: "holdfast grant show nomad", says: "namespaces, plugins, roots of secrets" }],
  async run({ clients, out }, input) {
    const answer = await clients.grants.getGrant({ scheduler: input.arg("scheduler") });
    answerOne(out, input, {
      answer: shown("holdfast.v1.GetGrantResponse", GetGrantResponse, answer),
      names: [input.arg("scheduler")],
      people: () => oneGrant(answer),
    });
  },
};

const listGrants: Command = {
  path: ["grant", "list"],
  summary: "list the schedulers that have a grant",
  options: listOptions,
  examples: [{ line: "holdfast grant list", says: "all of them, with what they may use" }],
  async run(context, input) {
    await answerList(context, input, {
      read: () =>
        allRows(
          (pageToken) => context.clients.grants.listGrants({ pageSize, pageToken }),
          ({ grants }) => grants,
        ),
      answer: (grants) =>
        shown("holdfast.v1.ListGrantsResponse", ListGrantsResponse, { grants: [...grants], nextPageToken: "" }),
      columns: () => grantColumns,
      name: ({ scheduler }) => scheduler,
      none: "no scheduler has a grant\n",
    });
  },
};

const deleteGrant: Command = {
  path: ["grant", "delete"],
  summary: "take all rights of a scheduler away",
  args: [schedulerArg],
  options: [reasonOption],
  examples: [{ line: 'holdfast grant delete nomad --reason "moved away"', says: "it may do nothing" }],
  async run({ clients, out }, input) {
    const scheduler = input.arg("scheduler");
    const answer = await clients.grants.deleteGrant({ scheduler, reason: input.text("reason") ?? "" });
    out.answer(shown("holdfast.v1.DeleteGrantResponse", DeleteGrantResponse, answer), () =>
      answer.absent
        ? `scheduler ${scheduler} had no grant: nothing was taken from anybody (holdfast grant list)\n`
        : `scheduler ${scheduler} has no grant\n`,
    );
  },
};

export const grantCommands: readonly Command[] = [setGrant, showGrant, listGrants, deleteGrant];

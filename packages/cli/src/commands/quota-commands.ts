import { parseSize, sizeWords } from "@holdfast/model/size";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import {
  DeleteQuotaResponse,
  GetQuotaResponse,
  ListQuotasResponse,
  type Quota,
  type QuotaLimits,
  SetQuotaResponse,
} from "@holdfast/shared/gen/holdfast/v1/quota";
import type { Command, Input } from "../frame/command.ts";
import type { Context } from "../frame/context.ts";
import { answerList, listOptions } from "../frame/list-answer.ts";
import { answerOne, oneOption } from "../frame/one-answer.ts";
import { shown } from "../frame/output.ts";
import { type Column, tableText } from "../frame/tables.ts";
import { allRows, pageSize } from "./all-pages.ts";
import { usage } from "./option-words.ts";
import { reasonOption } from "./repair/repair-verb.ts";

const items = ["volumes", "bytes", "snapshots"] as const;
type Item = (typeof items)[number];
/** In place of a number: there is no bound any more. */
const noBound = "none";

const boundOf = (item: Item, text: string): bigint | undefined => {
  if (text === noBound) return undefined;
  const bound = item === "bytes" ? parseSize(text) : /^\d+$/.test(text) ? BigInt(text) : undefined;
  if (bound !== undefined) return bound;
  throw usage(
    `--${item} ${text}: has to be ${item === "bytes" ? "a size such as 10TiB" : "a whole number"}, or ${noBound}`,
  );
};

const standing = async ({ clients, settings }: Context): Promise<QuotaLimits | undefined> => {
  try {
    return (await clients.quotas.getQuota({ namespace: settings.namespace })).quota?.limits;
  } catch (error) {
    if (isHoldfastError(error) && error.reason === "QUOTA_NOT_FOUND") return undefined;
    throw error;
  }
};

/** What is not named stays as it is. */
const limitsOf = async (context: Context, input: Input): Promise<QuotaLimits> => {
  const given = items.flatMap((item) => {
    const text = input.text(item);
    return text === undefined ? [] : [[item, boundOf(item, text)] as const];
  });
  if (given.length === 0) throw usage("one of --volumes, --bytes and --snapshots is needed");
  return { ...(await standing(context)), ...Object.fromEntries(given) };
};

const amount = (item: Item, value: bigint): string => (item === "bytes" && value > 0n ? sizeWords(value) : `${value}`);

const cell =
  (item: Item) =>
  ({ limits, used }: Quota): string => {
    const limit = limits?.[item];
    return `${amount(item, used?.[item] ?? 0n)} of ${limit === undefined ? "any" : amount(item, limit)}`;
  };

const quotaColumns: readonly Column<Quota>[] = [
  { title: "NAMESPACE", of: ({ namespace }) => namespace },
  { title: "VOLUMES", of: cell("volumes") },
  { title: "BYTES", of: cell("bytes") },
  { title: "SNAPSHOTS", of: cell("snapshots") },
];

const oneQuota = ({ quota }: { readonly quota?: Quota | undefined }): string =>
  tableText(quotaColumns, quota === undefined ? [] : [quota]);

const setQuota: Command = {
  path: ["quota", "set"],
  summary: "bound what a namespace may have",
  description:
    "What it has already counts, and stays; a request beyond a bound is refused. A bound that is not named stays as it is; none takes it away.",
  options: [
    { flags: "--volumes <number>", help: "how many volumes" },
    { flags: "--bytes <size>", help: "how large all volumes together, such as 10TiB" },
    { flags: "--snapshots <number>", help: "how many snapshots, those of groups too" },
    reasonOption,
    oneOption,
  ],
  examples: [
    {
      line: 'holdfast quota set -n shop --volumes 20 --bytes 2TiB --reason "as ordered"',
      says: "no snapshots are bounded",
    },
  ],
  async run(context, input) {
    const { clients, settings, out } = context;
    const limits = await limitsOf(context, input);
    const reason = input.text("reason") ?? "";
    const answer = await clients.quotas.setQuota({ namespace: settings.namespace, limits, reason });
    answerOne(out, input, {
      answer: shown("holdfast.v1.SetQuotaResponse", SetQuotaResponse, answer),
      names: [settings.namespace],
      people: () => oneQuota(answer),
    });
  },
};

const statusQuota: Command = {
  path: ["quota", "status"],
  summary: "show what a namespace has of what it may have",
  options: [oneOption],
  examples: [{ line: "holdfast quota status -n shop", says: "used and bound, by kind" }],
  async run({ clients, settings, out }, input) {
    const answer = await clients.quotas.getQuota({ namespace: settings.namespace });
    answerOne(out, input, {
      answer: shown("holdfast.v1.GetQuotaResponse", GetQuotaResponse, answer),
      names: [settings.namespace],
      people: () => oneQuota(answer),
    });
  },
};

const listQuotas: Command = {
  path: ["quota", "list"],
  summary: "list the namespaces that are bounded",
  options: listOptions,
  examples: [{ line: "holdfast quota list", says: "all of them, with what they have" }],
  async run(context, input) {
    await answerList(context, input, {
      read: () =>
        allRows(
          (pageToken) => context.clients.quotas.listQuotas({ pageSize, pageToken }),
          ({ quotas }) => quotas,
        ),
      answer: (quotas) =>
        shown("holdfast.v1.ListQuotasResponse", ListQuotasResponse, { quotas: [...quotas], nextPageToken: "" }),
      columns: () => quotaColumns,
      name: ({ namespace }) => namespace,
      none: "no namespace has a quota\n",
    });
  },
};

const deleteQuota: Command = {
  path: ["quota", "delete"],
  summary: "take all bounds of a namespace away",
  options: [reasonOption],
  examples: [
    { line: 'holdfast quota delete -n shop --reason "on its own cell now"', says: "it may have all there is" },
  ],
  async run({ clients, settings, out }, input) {
    const { namespace } = settings;
    const answer = await clients.quotas.deleteQuota({ namespace, reason: input.text("reason") ?? "" });
    out.answer(shown("holdfast.v1.DeleteQuotaResponse", DeleteQuotaResponse, answer), () =>
      answer.absent
        ? `namespace ${namespace} had no quota: nothing was changed (holdfast quota list)\n`
        : `namespace ${namespace} has no quota\n`,
    );
  },
};

export const quotaCommands: readonly Command[] = [setQuota, statusQuota, listQuotas, deleteQuota];

import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { LiveWorkload } from "@holdfast/shared/gen/holdfast/v1/claim";
import { CliFailure } from "../../frame/cli-failure.ts";
import type { Context } from "../../frame/context.ts";
import { exitCodes } from "../../frame/exit-code.ts";
import { readText } from "../../spec/read-spec.ts";

export interface LiveList {
  readonly workloads: readonly LiveWorkload[];
  /** Runs a call with the list; what the controller finds wrong with a row of it is told by line. */
  call<Answer>(act: () => Promise<Answer>): Promise<Answer>;
}

const badList = (details: readonly string[]): CliFailure =>
  new CliFailure({
    exitCode: exitCodes.usage,
    reason: "BAD_LIST",
    message: "the list of workloads is not in order; nothing was released",
    details,
  });

/** A workload a line, as `workload` or `namespace/workload`; blank lines and `# remarks` are passed over. */
export const readLiveList = async (context: Context, path: string): Promise<LiveList> => {
  const file = path === "-" ? "(standard input)" : path;
  const rows = (await readText(context, path)).split("\n").flatMap((line, i) => {
    const text = line.trim();
    return text === "" || text.startsWith("#") ? [] : [{ text, at: `${file}:${i + 1}` }];
  });
  const mistakes = rows.filter(({ text }) => !/^(?:[^\s/]+\/)?[^/]+$/.test(text));
  if (mistakes.length > 0)
    throw badList(
      mistakes.map(({ text, at }) => `${at}: ${JSON.stringify(text)} has to be workload or namespace/workload`),
    );
  return {
    workloads: rows.map(({ text }) => {
      const [first = "", second] = text.split("/");
      return second === undefined ? { namespace: "", workload: first } : { namespace: first, workload: second };
    }),
    async call(act) {
      try {
        return await act();
      } catch (error) {
        if (!isHoldfastError(error)) throw error;
        const ofRows = error.violations.flatMap(({ field, description }) => {
          const [, index, part = ""] = /^live\[(\d+)\]\.(\w+)$/.exec(field) ?? [];
          const row = index === undefined ? undefined : rows[Number(index)];
          return row === undefined ? [] : [`${row.at}: ${part} of ${JSON.stringify(row.text)} ${description}`];
        });
        // Together with mistakes of other fields it is told as the controller told it.
        if (ofRows.length === 0 || ofRows.length < error.violations.length) throw error;
        throw badList(ofRows);
      }
    },
  };
};

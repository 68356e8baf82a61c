/** Which cells of the tables of obligations and of claims the searches have asked for. */
import { claimMachine } from "../../services/controller/src/domain/claim/claim-machine.ts";
import { followTable } from "../../services/controller/src/domain/obligation/obligation.ts";
import { unreached } from "./unreached-cells.ts";

export interface UsedCells {
  /** One line for each table, and one for each cell that is not where it belongs. */
  report(): readonly string[];
  /** Cells that are neither used nor listed, and listed ones that are used. */
  mistakes(): readonly string[];
}

const watch = (table: object, path: readonly string[], cells: Map<string, boolean>): object => {
  const watched = {};
  for (const [name, value] of Object.entries(table)) {
    const words = [...path, name];
    const cell = words.join("/");
    if (typeof value === "object") Object.assign(watched, { [name]: watch(value, words, cells) });
    else {
      cells.set(cell, false);
      const get = (): unknown => {
        cells.set(cell, true);
        return value;
      };
      Object.defineProperty(watched, name, { enumerable: true, get });
    }
  }
  return watched;
};

const isListed = (cell: string): boolean => {
  const words = cell.split("/");
  return unreached.some(({ cells }) =>
    cells.split("/").every((said, i) => said === "*" || said.split("|").includes(words[i] ?? "")),
  );
};

/** From now on; the tables stay as they are. */
export const watchCells = (): UsedCells => {
  const tables = { obligations: followTable, claims: claimMachine };
  const watched = Object.entries(tables).map(([name, table]) => {
    const cells = new Map<string, boolean>();
    Object.assign(table, watch(table, [], cells));
    return { name, cells };
  });
  const mistakes = (): readonly string[] =>
    watched.flatMap(({ cells }) =>
      [...cells].flatMap(([cell, used]) =>
        used === isListed(cell)
          ? [`${cell}: ${used ? "used, and listed as out of reach" : "neither used nor listed"}`]
          : [],
      ),
    );
  return {
    mistakes,
    report: () => [
      ...watched.map(({ name, cells }) => {
        const used = [...cells.values()].filter(Boolean).length;
        return `${name}: ${used} of ${cells.size} cells used, ${cells.size - used} out of reach`;
      }),
      ...mistakes(),
    ],
  };
};

/**
 * What the controllers say of their own gates: one record, so that one read shows all of them. A controller calls plugins in sockets beside
 * it, where no agent stands between a late call and the plugin.
 */
import { createMetaTable, metaRef } from "./meta-table.ts";
import type { RecordTableDeps } from "./record-table.ts";
import { controllerGatesShape } from "./shape/controller-shapes.ts";

export interface GateWord {
  /** Controller and life. */
  readonly issuer: string;
  /** The plugins that it attaches and detaches in sockets of its own. */
  readonly plugins: readonly string[];
  /** Uid of the vetting under which it spoke last. */
  readonly told: string;
  /** Uid of the vetting that it has promised: no call that was decided before leaves it any more, and none of those is open. */
  readonly promised: string;
  /** It may have seen commits that the store had lost when that vetting began. */
  readonly lost: boolean;
  /** Nodes that it knew, and that the store knows no more: what keeps it shut keeps all shut. */
  readonly missing: readonly string[];
}

export interface ControllerGates {
  /** Puts the word in the place of the life's last one, and of its former lives; answers all that stand there then. */
  tell(word: GateWord, isFormerLife: (issuer: string) => boolean): Promise<readonly GateWord[]>;
  read(): Promise<readonly GateWord[]>;
  /** Takes the words that fit out: nobody waits for these lives any more. `vetted`: only in a store that is vetted. */
  remove(fits: (word: GateWord) => boolean, vetted: boolean): Promise<void>;
}

interface StoredGates {
  readonly gates: readonly GateWord[];
}

const ref = metaRef("gates");

export const createControllerGates = (deps: RecordTableDeps): ControllerGates => {
  const what = "the record of the gates of controllers";
  const table = createMetaTable<StoredGates>(deps, { shape: controllerGatesShape, what });
  const change = async (
    next: (before: readonly GateWord[]) => readonly GateWord[],
    requiresVetted = false,
  ): Promise<readonly GateWord[]> => {
    const { now } = await table.change(ref, (found) => {
      const before = found?.record.gates ?? [];
      const gates = next(before);
      return gates.length === before.length && gates.every((word, i) => word === before[i])
        ? undefined
        : { record: { gates }, requiresVetted };
    });
    return now?.record.gates ?? [];
  };
  return {
    tell: (word, isFormerLife) =>
      change((before) => [...before.filter(({ issuer }) => issuer !== word.issuer && !isFormerLife(issuer)), word]),
    read: async () => (await table.get(ref))?.record.gates ?? [],
    remove: async (fits, vetted) => void (await change((before) => before.filter((word) => !fits(word)), vetted)),
  };
};

/**
 * What the controllers say of their own gates: one record, so that one read shows all of them. A controller calls plugins in sockets beside
 * it, where no agent stands between a late call and the plugin.
 */
import type { AuditedAs } from "../domain/repair/audit.ts";
import { createMetaTable, metaRef } from "./meta-table.ts";
import type { Draft, RecordTableDeps, Versioned } from "./record-table.ts";
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

/** What all said, and the revision of the record that has it. */
export interface GateWords {
  readonly words: readonly GateWord[];
  readonly rev: number;
}

export interface ControllerGates {
  /** Puts the words in the place of the last ones of these lives, and of all former lives; answers all that stand there then. */
  tell(words: readonly GateWord[], isFormerLife: (issuer: string) => boolean): Promise<GateWords>;
  read(): Promise<GateWords>;
  /**
   * Takes the words that fit out of a store that is vetted: nobody waits for these lives any more. Answers what stands there then.
   * `audit`: the word of a person that it rests on.
   */
  remove(fits: (word: GateWord) => boolean, audit?: AuditedAs): Promise<GateWords>;
}

interface StoredGates {
  readonly gates: readonly GateWord[];
}

export const gatesRef = metaRef("gates");

const wordsOf = (found: Versioned<StoredGates> | undefined): GateWords => ({
  words: found?.record.gates ?? [],
  rev: found?.rev ?? 0,
});

export const createControllerGates = (deps: RecordTableDeps): ControllerGates => {
  const what = "the record of the gates of controllers";
  const table = createMetaTable<StoredGates>(deps, { shape: controllerGatesShape, what });
  const change = async (
    next: (before: readonly GateWord[]) => readonly GateWord[],
    terms: Pick<Draft<StoredGates>, "requiresVetted" | "audit"> = {},
  ): Promise<GateWords> => {
    const { now } = await table.change(gatesRef, (found) => {
      const before = found?.record.gates ?? [];
      const gates = next(before);
      return gates.length === before.length && gates.every((word, i) => word === before[i])
        ? undefined
        : { record: { gates }, ...terms };
    });
    return wordsOf(now);
  };
  return {
    tell: (words, isFormerLife) =>
      change((before) => {
        const replaced = (life: string): boolean => isFormerLife(life) || words.some(({ issuer }) => issuer === life);
        return [...before.filter(({ issuer }) => !replaced(issuer)), ...words];
      }),
    read: async () => wordsOf(await table.get(gatesRef)),
    remove: (fits, audit) => change((before) => before.filter((word) => !fits(word)), { requiresVetted: true, audit }),
  };
};

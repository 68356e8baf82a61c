/** What this controller tells the others of its gate. */
import type { Vetting } from "@holdfast/model/vetting";
import type { StoreIdentity } from "../domain/store-types.ts";
import type { GateWord, GateWords } from "../records/controller-gates.ts";
import type { OtherControllers } from "./controller-words.ts";
import type { LeftCalls } from "./left-calls.ts";
import type { NodeRoster } from "./node-roster.ts";

export interface OwnWord {
  /** A promise stands for its vetting: what is called afterwards is called under it. */
  hasPromised(vetting: Vetting): boolean;
  /** Tells it where it does not stand as it is, and answers what all say. `opened`: uid of the last vetting under which the gate was open. */
  tell(identity: StoreIdentity, opened: string, promises: boolean): Promise<GateWords>;
  /**
   * No call leaves this life any more. A word that a vetted store has of this vetting goes; another one bars nothing from now on if no call
   * is open, and tells what this life saw for as long as the store is not vetted (CW3).
   */
  signOff(vetted: Vetting | undefined, open: boolean): Promise<void>;
  /** The others know that the plugin is called here. */
  names(plugin: string): boolean;
}

export interface OwnWordDeps {
  readonly controllers: OtherControllers | undefined;
  readonly roster: Pick<NodeRoster, "missing">;
  readonly left: Pick<LeftCalls, "look" | "words" | "giveUp">;
  readonly knownCalls: () => Promise<ReadonlySet<string>>;
}

export const createOwnWord = ({ controllers, roster, left, knownCalls }: OwnWordDeps): OwnWord => {
  let said: GateWord | undefined;
  /** Of lives before this one; see left-calls.ts. */
  let saidOfLeft: readonly GateWord[] = [];
  let over = false;
  const hasPromised = ({ uid }: Vetting): boolean => said?.promised === uid;
  return {
    hasPromised,
    async tell({ vetting, lastVetted, keptAll }, opened, promises) {
      await left.look(vetting, knownCalls);
      if (controllers === undefined) return { words: left.words(vetting), rev: 0 };
      const { issuer, plugins, isFormerLife, firstLife } = controllers;
      // What a former life saw is in no memory.
      const sawAll = opened === "" ? firstLife : opened === lastVetted;
      const word = {
        issuer,
        plugins: plugins(),
        told: vetting.uid,
        promised: promises || hasPromised(vetting) ? vetting.uid : "",
        lost: said?.told === vetting.uid ? said.lost : !keptAll || !sawAll,
        missing: roster.missing().map(({ node }) => node),
      };
      // Others take out the word of a life that is silent for long: what was told once may stand there no more.
      const known = await controllers.read();
      const isKnown = (life: string): boolean => known.words.some((one) => one.issuer === life);
      // It was no promise: only a person takes such a word out.
      for (const one of saidOfLeft) if (one.told === vetting.uid && !isKnown(one.issuer)) left.giveUp(one.issuer);
      const ofLeft = left.words(vetting);
      const all = [word, ...ofLeft];
      const stands = (one: GateWord): boolean =>
        known.words.some((other) => JSON.stringify(other) === JSON.stringify(one));
      const isOver = (life: string): boolean => isFormerLife(life) && !ofLeft.some((one) => one.issuer === life);
      const same = all.every(stands) && !known.words.some((one) => isOver(one.issuer));
      const words = same || over ? known : await controllers.tell(all, isFormerLife);
      said = word;
      saidOfLeft = ofLeft;
      return words;
    },
    async signOff(vetted, open) {
      over = true;
      if (controllers === undefined || said === undefined) return;
      const { issuer, isFormerLife } = controllers;
      if (vetted !== undefined && hasPromised(vetted))
        await controllers.remove((one) => one.issuer === issuer && one.promised === vetted.uid);
      else if (!open) await controllers.tell([{ ...said, plugins: [] }, ...saidOfLeft], isFormerLife);
    },
    names: (plugin) => controllers?.plugins().includes(plugin) !== true || said?.plugins.includes(plugin) === true,
  };
};

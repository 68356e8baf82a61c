/** What this controller tells the others of its gate. */
import type { Vetting } from "@holdfast/model/vetting";
import type { StoreIdentity } from "../domain/store-types.ts";
import type { GateWord } from "../records/controller-gates.ts";
import type { OtherControllers } from "./controller-words.ts";
import type { NodeRoster } from "./node-roster.ts";

export interface OwnWord {
  /** A promise stands for its vetting: what is called afterwards is called under it. */
  hasPromised(vetting: Vetting): boolean;
  /** Tells it where it does not stand as it is, and answers what all say. `opened`: uid of the last vetting under which the gate was open. */
  tell(identity: StoreIdentity, opened: string, promises: boolean): Promise<readonly GateWord[]>;
  /** The others know that the plugin is called here. */
  names(plugin: string): boolean;
}

export const createOwnWord = (
  controllers: OtherControllers | undefined,
  roster: Pick<NodeRoster, "missing">,
): OwnWord => {
  let said: GateWord | undefined;
  const hasPromised = ({ uid }: Vetting): boolean => said?.promised === uid;
  return {
    hasPromised,
    async tell({ vetting, lastVetted, keptAll }, opened, promises) {
      if (controllers === undefined) return [];
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
      const stands = known.some((one) => JSON.stringify(one) === JSON.stringify(word));
      const words = stands ? known : await controllers.tell(word, isFormerLife);
      said = word;
      return words;
    },
    names: (plugin) => controllers?.plugins().includes(plugin) !== true || said?.plugins.includes(plugin) === true,
  };
};

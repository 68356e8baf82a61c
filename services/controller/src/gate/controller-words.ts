/**
 * What the gates of controllers promised, and what follows. A call that a controller decided under an older vetting may be in its hands while
 * others vet the store: no agent stands between that call and a plugin in a socket beside the controller.
 *
 * CW1 A controller that has not promised the vetting bars what is decided of the plugins in its sockets, at every controller, and nothing
 * else. No timer ends that: the controller promises, its next life does, or a person says that it is gone.
 * CW2 Where every controller on record promised, and none of them saw a commit that the store had lost, nothing acknowledged was lost. What
 * silent nodes hold is in the store then, and they bar nothing.
 * Where something may be lost, the words of those that are not away are waited for: a node that one of them misses is missed by all.
 * CW3 The word of a life that ended stays while the store is not vetted: what it saw may be lost. It goes by a commit that the vetted store
 * takes, and only if it was the word of that vetting.
 * CW5 A grant or an offer is stored only over the very words that it was judged by: not once others took out the word of this controller,
 * nor beside a word that it has not seen.
 */
import { showVetting, type Vetting } from "@holdfast/model/vetting";
import type { ControllerGates, GateWord } from "../records/controller-gates.ts";
import { type Finding, finding } from "./finding.ts";
import { forgottenNode } from "./node-roster.ts";

/** The gates of all controllers, as one of them sees them. */
export interface OtherControllers extends ControllerGates {
  /** This controller, in this life. */
  readonly issuer: string;
  readonly isFormerLife: (issuer: string) => boolean;
  /** That life has said nothing for a while: no proof of anything. */
  readonly isAway: (issuer: string) => boolean;
  /** No life before this one kept a state directory here. */
  readonly firstLife: boolean;
  /** The plugins that this controller attaches and detaches in sockets of its own. */
  readonly plugins: () => readonly string[];
}

/** CW1 */
export const unheardOf = (words: readonly GateWord[], { uid }: Vetting): readonly GateWord[] =>
  words.filter(({ promised }) => promised !== uid);

/** CW2 */
export const nothingLost = (words: readonly GateWord[], { uid }: Vetting): boolean =>
  words.every(({ promised, lost }) => promised === uid && !lost);

const unheardBecause = ({ issuer, told }: GateWord, vetting: Vetting): string => {
  const what = `controller ${issuer} has not promised generation ${showVetting(vetting)}`;
  return told === vetting.uid
    ? `${what}: a call that the store does not know may be open at a plugin beside it; restart that plugin, and if it is told of still, take the call for ended (holdfast repair forget-controller ${issuer})`
    : `${what}, and a call that it decided before may be on its way to a plugin beside it: start it again, or take it for gone (holdfast repair forget-controller ${issuer}, or repair vet --accept while the store is shut)`;
};

export const heldBackBy = (unheard: readonly GateWord[], plugin: string, vetting: Vetting): string | undefined => {
  const one = unheard.find(({ plugins }) => plugins.includes(plugin));
  return one && unheardBecause(one, vetting);
};

/** CW2 While something may be lost: who is still to speak, and which nodes this controller or another one misses. */
export const doubtsOf = (
  words: readonly GateWord[],
  vetting: Vetting,
  controllers: Pick<OtherControllers, "issuer" | "isAway"> | undefined,
  own: readonly Finding[],
): readonly Finding[] => {
  const others = words.filter(({ issuer }) => issuer !== controllers?.issuer);
  const [spoke, mute] = [
    others.filter(({ told }) => told === vetting.uid),
    others.filter(({ told }) => told !== vetting.uid),
  ];
  const awaited = mute.filter(({ issuer }) => controllers?.isAway(issuer) === false);
  const missed = spoke.flatMap(({ issuer, missing }) =>
    missing.filter((name) => !own.some(({ node }) => node === name)).map((name) => missedBy(issuer, name)),
  );
  return [...awaited.map((word) => finding("CONTROLLER", unheardBecause(word, vetting))), ...own, ...missed];
};

const missedBy = (issuer: string, name: string): Finding =>
  forgottenNode(
    name,
    `node ${name} was registered and in use, as controller ${issuer} knows, and the store does not know that any more`,
  );

export const unheardFindings = (unheard: readonly GateWord[], vetting: Vetting): readonly Finding[] =>
  unheard
    .filter(({ plugins }) => plugins.length > 0)
    .map((word) => finding("CONTROLLER", `${unheardBecause(word, vetting)}; plugins: ${word.plugins.join(", ")}`));

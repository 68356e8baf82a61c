/**
 * What a store was vetted as: the number of its generation, and the vetting that the number was promised to. Two histories of one store may
 * come to the same number; no two vettings have the same name.
 */
export interface Vetting {
  readonly gen: number;
  /** Empty: nobody said; it stands for any vetting of its generation. */
  readonly uid: string;
}

/** A generation rises by one with a vetting: nobody promises one that is so far above the last. */
export const maxGenerationStep = 2 ** 20;

export const noVetting: Vetting = { gen: 0, uid: "" };

/** How an order of the vetting `sender` stands to what was promised. `other`: the same number in another history. */
export const judgeVetting = (promised: Vetting, sender: Vetting): "older" | "other" | "same" | "newer" => {
  if (sender.gen !== promised.gen) return sender.gen < promised.gen ? "older" : "newer";
  return sender.uid === promised.uid || sender.uid === "" || promised.uid === "" ? "same" : "other";
};

/** What is promised after both: the higher number, and of the same number the one that has a name. */
export const withPromise = (promised: Vetting, next: Vetting): Vetting =>
  next.gen > promised.gen || (next.gen === promised.gen && promised.uid === "" && next.uid !== "") ? next : promised;

/** "5 (vetting 3f2a…)": as people read it. */
export const showVetting = ({ gen, uid }: Vetting): string => (uid === "" ? `${gen}` : `${gen} (vetting ${uid})`);

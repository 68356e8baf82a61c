import type { StoreIdentity } from "../domain/store-types.ts";
import type { Store } from "../ports.ts";

/** Vets the store as it is, as the gate does when no node has anything to say. */
export const vetAnew = async (
  store: Pick<Store, "identity" | "beginVetting" | "markVetted">,
): Promise<StoreIdentity> => {
  const { runId, vetting } = await store.identity();
  const gen = vetting.gen + 1;
  await store.beginVetting(runId, { gen, uid: `vetting-${gen}` });
  const { vetting: begun } = await store.identity();
  await store.markVetted(runId, begun);
  return store.identity();
};

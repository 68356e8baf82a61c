import { afterCall } from "../../domain/open-call.ts";
import type { Owed, Owing } from "./owed-call.ts";
import { notCalled } from "./under-intent.ts";

/**
 * Calls that records have given to an instance for this life to make, and that never left, are given to nobody: another controller makes
 * them at once, and overtakes nothing behind a bar. Only when no step of this life runs any more.
 */
export const giveBack = async <R extends Owing, C>(
  owed: Pick<Owed<R, C>, "records" | "rights" | "unstored" | "log">,
  read: (key: string) => Promise<R | undefined>,
): Promise<void> => {
  const { records, rights, log } = owed;
  const free = async (key: string): Promise<void> => {
    const record = await read(key);
    const { intent } = record ?? {};
    if (record === undefined || intent?.via === undefined || intent.issuer !== rights.issuer) return;
    const settles = notCalled(owed, record);
    if (settles.end !== "not-sent") return;
    await records.change(
      record,
      (r, at) => records.keep(r.intent?.opId === settles.opId ? afterCall(r, "not-sent", at) : r),
      { settles },
    );
  };
  await Promise.all(
    records.orders
      .keys()
      .map((key) =>
        free(key).catch((error: unknown) =>
          log.warn("a call that never left is not given back", { record: key, error }),
        ),
      ),
  );
};

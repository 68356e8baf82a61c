/** A call that lasts is put on its record, so that every controller can show it; one that ends sooner costs a timer. */
import { longCallMs } from "@holdfast/csi/call-policy";
import { lasting } from "../../domain/open-call.ts";
import type { Owed, Owing } from "./owed-call.ts";

export interface LongCall {
  begun(method: string, deadlineMs: number, instance: string): void;
  /** Answered, or given up: nothing is put on the record from now on. */
  end(): void;
}

export const watchCall = <R extends Owing, C>(
  { records, clock, log }: Pick<Owed<R, C>, "records" | "clock" | "log">,
  record: R,
  opId: string,
  attempt: number,
): LongCall => {
  let over = false;
  let cancel = (): void => undefined;
  return {
    begun(method, deadlineMs, instance) {
      cancel();
      const since = clock.now();
      const call = { method, instance, since, deadline: since + deadlineMs, attempt };
      const note = () => records.change(record, (r) => records.keep(over ? r : lasting(r, opId, call)), {});
      cancel = clock.timer(longCallMs, () => {
        note().catch((error: unknown) => {
          if (!over) log.warn("a long call could not be put on its record", { record: records.keyOf(record), error });
        });
      });
    },
    end() {
      over = true;
      cancel();
    },
  };
};

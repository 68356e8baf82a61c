import { RefusalReason } from "@holdfast/shared/gen/holdfast/internal/v1/agent";

/** Stable words for what an agent refuses; `REFUSAL_REASON_` is taken off. */
export const refusalWord = (reason: RefusalReason): string =>
  Object.keys(RefusalReason)
    .find((name) => RefusalReason[name as keyof typeof RefusalReason] === reason && reason > 0)
    ?.replace("REFUSAL_REASON_", "") ?? "UNKNOWN";

/** What an order has to be like before anything is written. Every violation is told at once. */
import { holdsControl } from "@holdfast/model/control-characters";
import { idPattern, isId } from "@holdfast/model/id";
import { workloadIdFault } from "@holdfast/model/workload-id";
import { type FieldViolation, invalidArgument } from "@holdfast/shared/errors/holdfast-error";

const fsTypePattern = /^[a-z0-9._-]{0,16}$/;
const maxText = 128;
const maxMap = 4096;

export interface Checks {
  /** A name of ours: namespace, volume, alias, node. */
  id(field: string, value: string): void;
  /** The scheduler's own word. */
  workload(field: string, value: string): void;
  /** A word of somebody else's: at most 128 bytes, no control characters. */
  text(field: string, value: string): void;
  fsType(field: string, value: string): void;
  map(field: string, value: Readonly<Record<string, string>>): void;
  flags(field: string, value: readonly string[]): void;
  that(holds: boolean, field: string, description: string): void;
  /** Throws when anything was wrong. */
  end(): void;
}

export function createChecks(): Checks {
  const wrong: FieldViolation[] = [];
  const that: Checks["that"] = (holds, field, description) => {
    if (!holds) wrong.push({ field, description });
  };
  return {
    that,
    id: (field, value) => that(isId(value), field, `has to match ${idPattern.source} without ".."`),
    workload(field, value) {
      const fault = workloadIdFault(value);
      that(fault === undefined, field, fault ?? "");
    },
    text(field, value) {
      const bytes = Buffer.byteLength(value);
      that(
        bytes > 0 && bytes <= maxText && !holdsControl(value),
        field,
        `has to have 1 to ${maxText} bytes without control characters`,
      );
    },
    fsType: (field, value) => that(fsTypePattern.test(value), field, `has to match ${fsTypePattern.source}`),
    map(field, value) {
      const bytes = Object.entries(value).reduce(
        (sum, [key, item]) => sum + Buffer.byteLength(key) + Buffer.byteLength(item),
        0,
      );
      that(bytes <= maxMap, field, `holds ${bytes} bytes, ${maxMap} are allowed`);
    },
    flags(field, value) {
      const bytes = value.reduce((sum, flag) => sum + Buffer.byteLength(flag), 0);
      that(bytes <= maxMap, field, `holds ${bytes} bytes, ${maxMap} are allowed`);
      for (const [at, flag] of value.entries()) {
        that(
          flag !== "" && !holdsControl(flag) && !/\s/.test(flag),
          `${field}[${at}]`,
          "is empty, or holds a space or a control character",
        );
      }
    },
    end() {
      if (wrong.length > 0) throw invalidArgument(wrong);
    },
  };
}

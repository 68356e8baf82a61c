import type { DescField } from "@bufbuild/protobuf";

/** The number of `(holdfast.v1.required)` in proto/holdfast/v1/field_rule.proto. */
const required = 51_230;

/** Has the field the mark of those without which a request is refused? */
export const isRequired = (field: DescField): boolean =>
  field.proto.options?.$unknown?.some(({ no }) => no === required) === true;

/** One field of the body of a stored event, empty when it has none. Bodies are notes of the domain: flat, without secrets. */
export const noteText = (body: string, field: string): string => {
  const note: unknown = JSON.parse(body);
  const value: unknown = typeof note === "object" && note !== null ? Reflect.get(note, field) : undefined;
  return typeof value === "string" ? value : "";
};

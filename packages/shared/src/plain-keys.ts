/**
 * Generated code reads the maps of a message into plain objects. There the key "__proto__" is no key but an accessor, so that its value
 * would be lost in silence: a label, a parameter, a secret. Without the accessor it is a key as any other.
 */
export const plainKeys = (): (() => void) => {
  const accessor = Object.getOwnPropertyDescriptor(Object.prototype, "__proto__");
  Reflect.deleteProperty(Object.prototype, "__proto__");
  return () => {
    if (accessor !== undefined) Object.defineProperty(Object.prototype, "__proto__", accessor);
  };
};

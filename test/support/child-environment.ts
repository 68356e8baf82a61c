/**
 * The environment of a program that a test starts: where programs are, and where Node keeps the modules that it compiled, which
 * spares two thirds of the start of a service. Nothing else of the caller's.
 */
export const childEnvironment = (): Readonly<Record<string, string>> => {
  const compiled = process.env["NODE_COMPILE_CACHE"];
  return { PATH: process.env["PATH"] ?? "", ...(compiled === undefined ? {} : { NODE_COMPILE_CACHE: compiled }) };
};

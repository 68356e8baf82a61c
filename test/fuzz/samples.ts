/** Sound requests of services, rows for each method of each of them: one that has none does not compile. */
import type { DeepPartial } from "@holdfast/shared/gen/holdfast/v1/common";

export interface MessageType {
  fromPartial(value: never): unknown;
  encode(message: never): { finish(): Uint8Array };
  decode(bytes: Uint8Array): unknown;
}

export interface Sample {
  /** `/<service>/<method>`. */
  readonly path: string;
  readonly type: MessageType;
  readonly request: unknown;
  /** What it holds is stored. */
  readonly writes: boolean;
}

type RequestOf<Method> = Method extends (request: infer Request, context: never) => unknown
  ? DeepPartial<Request>
  : never;
type Some<T> = readonly [T, ...T[]];
type Rows<Service> = {
  readonly [Method in keyof Service]: { readonly [As in "stored" | "asked"]?: Some<RequestOf<Service[Method]>> } & (
    | { readonly stored: unknown }
    | { readonly asked: unknown }
  );
};

export type RowsOf<Services> = { readonly [Name in keyof Services]: Rows<Services[Name]> };

interface Definition {
  readonly fullName: string;
  readonly methods: Readonly<Record<string, { readonly name: string; readonly requestType: unknown }>>;
}
type AnyRows = Readonly<Record<string, { readonly [As in "stored" | "asked"]?: readonly unknown[] }>>;

export const samplesOf = <Services>(
  definitions: { readonly [Name in keyof Services]: Definition },
  rows: RowsOf<Services>,
): readonly Sample[] =>
  (Object.keys(rows) as (keyof Services)[]).flatMap((service) => {
    const { fullName, methods } = definitions[service];
    return Object.entries(methods).flatMap(([key, method]) => {
      const type = method.requestType as MessageType;
      const { stored = [], asked = [] } = (rows[service] as AnyRows)[key] ?? {};
      const sample = (one: unknown, writes: boolean): Sample => {
        return { path: `/${fullName}/${method.name}`, type, request: type.fromPartial(one as never), writes };
      };
      return [...stored.map((one) => sample(one, true)), ...asked.map((one) => sample(one, false))];
    });
  });

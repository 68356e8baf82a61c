import { expect, test } from "vitest";
import { createDockerTemplates, templatesFrom } from "./docker-templates.ts";

test("templates are options by their names", () => {
  expect(templatesFrom("t.json", '{"fast":{"plugin":"p","size":"1GiB"}}')).toEqual({
    fast: { plugin: "p", size: "1GiB" },
  });
});

test.each([
  ["{", /t\.json cannot be used/],
  ["[]", /no object of templates/],
  [
    '{"a":{"size":1},"b":{"sise":"1"},"c":{"template":"a"}}',
    /a: has to be an object of texts; b\.sise: .*c\.template: /,
  ],
])("%s is refused with all that is wrong", (text, words) => {
  expect(() => templatesFrom("t.json", text)).toThrow(words);
});

test("a file that is not there is told when it is asked for; without the setting there are none", async () => {
  await expect(createDockerTemplates("/nowhere/t.json")()).rejects.toMatchObject({ reason: "CONFIG_INVALID" });
  expect(await createDockerTemplates(undefined)()).toEqual({});
});

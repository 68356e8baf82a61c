/** The rows of a table as one test: each row is checked, and the failure names each row that does not hold, with its reason. */
export const everyRow = async <Row>(
  rows: readonly Row[],
  nameOf: (row: Row) => string,
  check: (row: Row) => unknown,
): Promise<void> => {
  if (rows.length === 0) throw new Error("the table has no row");
  const failures: string[] = [];
  for (const row of rows)
    try {
      await check(row);
    } catch (error) {
      failures.push(`${nameOf(row)}: ${error instanceof Error ? error.message : String(error)}`);
    }
  if (failures.length > 0) throw new Error(failures.join("\n"));
};

/** @returns the result of work that is done step by step */
export function finished<T>(steps: Generator<unknown, T, undefined>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** For long runs that may end early and still say what they have done. */
export function abortedByTerm(): AbortSignal {
  const controller = new AbortController();
  process.once('SIGTERM', () => {
    controller.abort();
  });
  return controller.signal;
}

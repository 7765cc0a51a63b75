import js from '@eslint/js';
import tseslint from 'typescript-eslint';

// Globals that cores must not use: they make output depend on more than the inputs.
const impureGlobals = [
  'setTimeout',
  'setInterval',
  'setImmediate',
  'queueMicrotask',
  'process',
  'console',
  'performance',
  'fetch',
];
const impureSyntax = [
  {
    selector: "MemberExpression[object.name='Date'][property.name='now']",
    message: 'Core code receives the time as an input.',
  },
  {
    selector: "NewExpression[callee.name='Date']",
    message: 'Core code receives the time as an input.',
  },
  {
    selector: "MemberExpression[object.name='Math'][property.name='random']",
    message: 'Core code receives randomness as an input.',
  },
  { selector: ':function[async=true]', message: 'Core code is synchronous.' },
  { selector: 'AwaitExpression', message: 'Core code is synchronous.' },
];
const noEnums = [
  { selector: 'TSEnumDeclaration', message: 'Use an `as const` table and a derived union.' },
  { selector: 'TSModuleDeclaration[kind="namespace"]', message: 'Use modules.' },
];

export default tseslint.config(
  { ignores: ['build*/', '.tap/', '.provisioned/', 'node_modules/', 'examples/'] },
  js.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [...tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
  },
  {
    files: ['**/*.ts'],
    rules: {
      // A file covers one idea. The limit only catches files that have outgrown theirs.
      'max-lines': ['error', { max: 600, skipBlankLines: true, skipComments: true }],
      'max-lines-per-function': ['error', { max: 70, skipBlankLines: true, skipComments: true }],
      'no-restricted-syntax': ['error', ...noEnums],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      // A `while (true)` with a return inside reads better than a flag.
      '@typescript-eslint/no-unnecessary-condition': [
        'error',
        { allowConstantLoopConditions: true },
      ],
    },
  },
  {
    files: ['**/core/**/*.ts'],
    ignores: ['test/**'],
    rules: {
      'no-restricted-globals': ['error', ...impureGlobals],
      'no-restricted-syntax': ['error', ...noEnums, ...impureSyntax],
    },
  },
  {
    files: ['test/**/*.ts', 'benchmarks/**/*.ts'],
    rules: {
      'max-lines-per-function': 'off',
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/no-floating-promises': [
        'error',
        { allowForKnownSafeCalls: [{ from: 'package', package: '@tapjs/test', name: 'test' }] },
      ],
    },
  },
  {
    files: ['**/*.js', '**/*.cjs', '**/*.mjs'],
    languageOptions: {
      globals: {
        process: 'readonly',
        console: 'readonly',
        performance: 'readonly',
        module: 'writable',
        URL: 'readonly',
      },
    },
  },
);

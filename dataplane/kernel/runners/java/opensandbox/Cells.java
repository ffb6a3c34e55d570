// SPDX-License-Identifier: Apache-2.0
package opensandbox;

import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis.Completeness;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;

/** Runs cells: splits them into snippets and says the value of the last one. */
final class Cells {
    private static final long STOP_PAUSE_MS = 20;

    private final JShell shell;
    private final Wire wire;
    private final PrintStream out = System.out; // code may put another in its place
    private volatile int count;
    private volatile boolean isRunning;
    private volatile boolean isInterrupted;

    Cells(JShell shell, Wire wire) {
        this.shell = shell;
        this.wire = wire;
    }

    /**
     * Ends the cell that runs; what it has done so far stays. JShell stops only code that runs already,
     * so code that it is about to begin is asked again.
     */
    void interrupt() throws InterruptedException {
        int interrupted = count;
        while (isRunning && count == interrupted) {
            isInterrupted = true;
            shell.stop();
            Thread.sleep(STOP_PAUSE_MS);
        }
    }

    /** Makes the cell that comes next the one that an interrupt means. */
    void expect() {
        count++;
        isInterrupted = false;
        isRunning = true;
    }

    /** Runs the expected cell and returns its failure, or null. */
    Map<String, Object> run(String code) {
        try {
            Map<String, Object> failure = runSnippets(code);
            return isInterrupted ? failure("KeyboardInterrupt", "", List.of()) : failure;
        } catch (Throwable error) { // of JShell, which some code is too much for
            return failure(error.getClass().getName(), "the code cannot be run or its result not be told", List.of());
        } finally {
            isRunning = false;
        }
    }

    private Map<String, Object> runSnippets(String code) {
        String rest = code;
        String value = null;
        while (!rest.isBlank() && !isInterrupted) {
            CompletionInfo next = shell.sourceCodeAnalysis().analyzeCompletion(rest);
            if (next.completeness() == Completeness.EMPTY) {
                break;
            }
            if (next.completeness() == Completeness.DEFINITELY_INCOMPLETE) {
                return failure("CompilationError", "the code ends too early", List.of(rest.strip().split("\n")));
            }
            String source = next.source() == null ? rest : next.source();
            value = null;
            for (SnippetEvent event : shell.eval(source)) {
                if (event.causeSnippet() != null) {
                    continue; // an earlier snippet that this one changed
                }
                Map<String, Object> failure = failureOf(event, source);
                if (failure != null) {
                    return failure;
                }
                value = isExpression(event.snippet()) ? event.value() : null;
            }
            rest = next.remaining() == null ? "" : next.remaining();
        }
        if (value != null && !value.isEmpty() && !isInterrupted) {
            out.flush();
            wire.show(Map.of("text/plain", value), Map.of("count", count));
        }
        return null;
    }

    /** JShell keeps the value of most expressions in a variable that it makes up. */
    private static boolean isExpression(Snippet snippet) {
        return snippet.kind() == Snippet.Kind.EXPRESSION
                || snippet.subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND;
    }

    private Map<String, Object> failureOf(SnippetEvent event, String source) {
        JShellException thrown = event.exception();
        if (thrown instanceof EvalException exception) {
            return failure(exception.getExceptionClassName(), String.valueOf(exception.getMessage()), trace(exception));
        }
        if (thrown != null) {
            return failure("UnresolvedReference", thrown.getMessage(), List.of());
        }
        if (event.status() == Snippet.Status.REJECTED) {
            List<String> lines = new ArrayList<>();
            List<Diag> problems = shell.diagnostics(event.snippet()).filter(Diag::isError).collect(Collectors.toList());
            for (Diag problem : problems) {
                lines.addAll(located(problem, source));
            }
            String first = problems.isEmpty() ? "the code was rejected" : message(problems.get(0));
            return failure("CompilationError", first.lines().findFirst().orElse(""), lines);
        }
        if (event.status() == Snippet.Status.RECOVERABLE_NOT_DEFINED) {
            String missing = shell.unresolvedDependencies((jdk.jshell.DeclarationSnippet) event.snippet())
                    .collect(Collectors.joining(", "));
            return failure("CompilationError", "cannot find: " + missing, List.of());
        }
        return null;
    }

    private static String message(Diag problem) {
        return problem.getMessage(Locale.ROOT);
    }

    /** The message of a problem, with the line it is in and a mark below the place. */
    private static List<String> located(Diag problem, String source) {
        List<String> lines = new ArrayList<>(message(problem).lines()
                .filter(line -> !line.startsWith("  location:")).toList()); // a class that JShell made up
        int at = (int) Math.max(0, Math.min(problem.getPosition(), source.length()));
        int begin = source.lastIndexOf('\n', at - 1) + 1;
        int end = source.indexOf('\n', at);
        lines.add("    " + source.substring(begin, end < 0 ? source.length() : end));
        lines.add("    " + " ".repeat(at - begin) + "^");
        return lines;
    }

    private static List<String> trace(EvalException exception) {
        List<String> lines = new ArrayList<>();
        lines.add(exception.getExceptionClassName() + ": " + exception.getMessage());
        for (StackTraceElement element : exception.getStackTrace()) {
            lines.add("    at " + element);
        }
        if (exception.getCause() instanceof EvalException cause) {
            lines.add("Caused by:");
            lines.addAll(trace(cause));
        }
        return lines;
    }

    private static Map<String, Object> failure(String name, String value, List<String> traceback) {
        return Map.of("ename", name, "evalue", value, "traceback", traceback);
    }
}

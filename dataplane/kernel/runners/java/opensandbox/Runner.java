// SPDX-License-Identifier: Apache-2.0
package opensandbox;

import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import jdk.jshell.JShell;

/**
 * The daemon's runner for Java: a JShell whose code runs in this process. One thread hears the
 * daemon, so that a cell can be stopped; the main thread runs cells.
 */
public final class Runner {
    private static final List<String> IMPORTS =
            List.of("java.io", "java.math", "java.net", "java.nio.file", "java.util", "java.util.concurrent",
                    "java.util.function", "java.util.regex", "java.util.stream");

    private final Wire wire;
    private final Cells cells;
    private final LinkedBlockingQueue<Map<String, Object>> orders = new LinkedBlockingQueue<>();

    private Runner(Wire wire, JShell shell) {
        this.wire = wire;
        this.cells = new Cells(shell, wire);
    }

    /** Serves until the daemon has gone. The argument is the directory of these classes. */
    public static void main(String[] arguments) throws Exception {
        Wire wire = Wire.open();
        Display.wire = wire;
        System.setOut(stream(FileDescriptor.out));
        System.setErr(stream(FileDescriptor.err));
        JShell shell = JShell.builder().executionEngine("local").in(InputStream.nullInputStream())
                .out(System.out).err(System.err).build();
        shell.addToClasspath(arguments[0]);
        for (String name : IMPORTS) {
            shell.eval("import " + name + ".*;");
        }
        shell.eval("import static opensandbox.Display.display;");
        Runner runner = new Runner(wire, shell);
        wire.say("ready", Map.of());
        Thread listener = new Thread(runner::listen, "daemon");
        listener.setDaemon(true);
        listener.start();
        runner.serve();
    }

    private static PrintStream stream(FileDescriptor descriptor) {
        return new PrintStream(new BufferedOutputStream(new FileOutputStream(descriptor)), true, StandardCharsets.UTF_8);
    }

    private void listen() {
        try {
            Map<String, Object> order = wire.hear();
            while (order != null) {
                if ("interrupt".equals(order.get("type"))) {
                    cells.interrupt();
                } else {
                    cells.expect();
                    orders.add(order);
                }
                order = wire.hear();
            }
        } catch (InterruptedException error) {
            System.err.println("the thread that hears the daemon was interrupted by the code");
        }
        Runtime.getRuntime().halt(0);
    }

    private void serve() throws InterruptedException {
        PrintStream out = System.out; // code may put others in their place
        PrintStream err = System.err;
        while (true) {
            Map<String, Object> failure = cells.run((String) orders.take().get("code"));
            out.flush();
            err.flush();
            wire.say("done", failure == null ? Map.of() : Map.of("error", failure));
        }
    }
}

"""Programs of a cooperative launch in Triton's interpreter, which otherwise runs one after the other: where one waits
for another's counter, that would be for ever. Each is a thread; one of them runs at a time, drawn anew at each atomic
operation. Import it after interpreted.py.
"""

import inspect
import random
import threading

from triton.runtime import interpreter

_running = threading.local()
_one_by_one = interpreter.GridExecutor.__call__
_count = interpreter.InterpreterBuilder.create_atomic_rmw


class _Program:
    def __init__(self, number, function, arguments):
        self.number, self.function, self.arguments = number, function, arguments
        self.error, self.is_over = None, False
        self.turn, self.pause = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        self.turn.acquire()
        _running.program = self
        try:
            self.function(**self.arguments)
        except Exception as error:  # noqa: BLE001 - raised by whoever launched it
            self.error = error
        self.is_over = True
        self.pause.release()

    def go_on(self):
        """Run until the next atomic operation, or the end."""
        interpreter.interpreter_builder.set_grid_idx(self.number, 0, 0)
        self.turn.release()
        self.pause.acquire()
        if self.error is not None:
            raise self.error

    def wait(self):
        """Let others run."""
        self.pause.release()
        self.turn.acquire()


def _counted(builder, *arguments):
    program = getattr(_running, "program", None)
    if program is not None:
        program.wait()
    return _count(builder, *arguments)


def _launched(executor, *given, launch_cooperative_grid=False, **named):
    if not launch_cooperative_grid:
        return _one_by_one(executor, *given, **named)
    names = inspect.getfullargspec(executor.fn).args
    named = {name: value for name, value in named.items() if name in names}
    here, named_here = executor._init_args_hst(given, named)
    scope = interpreter._patch_lang(executor.fn)
    try:
        arguments = inspect.getcallargs(executor.fn, *here, **named_here)
        for name in arguments.keys() - set(executor.constexprs):
            arguments[name] = interpreter._implicit_cvt(arguments[name])
        (count,) = {executor.grid[0]} if executor.grid[1:] in ((), (1, 1)) else ()
        interpreter.interpreter_builder.set_grid_dim(count, 1, 1)
        programs = [_Program(number, executor.fn, arguments) for number in range(count)]
        draw = random.Random(count)
        while programs:
            program = draw.choice(programs)
            program.go_on()
            if program.is_over:
                programs.remove(program)
    finally:
        scope.restore()
    executor._restore_args_dev(given, here, named, named_here)
    return None


interpreter.GridExecutor.__call__ = _launched
interpreter.InterpreterBuilder.create_atomic_rmw = _counted

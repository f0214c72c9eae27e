package background

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
)

// PanicError is the error of a job that panicked.
type PanicError struct {
	Name  string // of the job, as given to Do
	Value any    // what panic was called with
	Stack []byte // of the goroutine that panicked
}

// Error returns what panicked and why. It omits the stack, because errors are
// shown to users; the stack is in the operator's log.
func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.Name, e.Value) }

// Unwrap returns the value of the panic when it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

var panics struct {
	mu sync.Mutex
	of map[string]uint64
}

// Panics returns how many panics were recovered since the process started, by
// name.
func Panics() map[string]uint64 {
	panics.mu.Lock()
	defer panics.mu.Unlock()
	return maps.Clone(panics.of)
}

var onPanic atomic.Pointer[func(*PanicError)]

// OnPanic sets the function that is called for each recovered panic; by
// default, panics are written to standard error. This package does not import a
// logger, because ingot-init, which runs in every instance, links it.
func OnPanic(report func(*PanicError)) { onPanic.Store(&report) }

// Recovered counts a panic, reports it with its stack, and returns it as an
// error. It is for deferred functions that call recover themselves; value is
// the non-nil result of recover.
func Recovered(name string, value any) *PanicError {
	err := &PanicError{Name: name, Value: value, Stack: debug.Stack()}
	panics.mu.Lock()
	if panics.of == nil {
		panics.of = map[string]uint64{}
	}
	panics.of[name]++
	panics.mu.Unlock()
	if report := onPanic.Load(); report != nil {
		(*report)(err)
	} else {
		fmt.Fprintf(os.Stderr, "%v; the process continues\n%s\n", err, err.Stack)
	}
	return err
}

// Do calls f. A panic in f is returned as a *PanicError.
func Do(name string, f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = Recovered(name, value)
		}
	}()
	return f()
}

// Safely calls f and reports whether it returned without a panic.
func Safely(name string, f func()) (ok bool) {
	return Do(name, func() error { f(); return nil }) == nil
}

// nameOf names a function by its package, for goroutines without a name.
func nameOf(f any) string {
	info := runtime.FuncForPC(reflect.ValueOf(f).Pointer())
	if info == nil {
		return "unnamed"
	}
	// ingot/internal/platform/logs/drain.(*Manager).Start.func1
	name := strings.TrimPrefix(strings.TrimPrefix(info.Name(), "ingot/"), "internal/")
	slash := strings.LastIndexByte(name, '/') + 1
	if dot := strings.IndexByte(name[slash:], '.'); dot >= 0 {
		name = name[:slash+dot]
	}
	return name
}

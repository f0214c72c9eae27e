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

// PanicError is the failure of a job that panicked.
type PanicError struct {
	Name  string // of the job, as given to Do
	Value any    // what panic was called with
	Stack []byte // of the goroutine that panicked
}

// Error says what panicked and why. It has no stack, because errors are shown to
// users; the stack stands in the operator's log.
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

// Panics returns how many panics of each name were recovered since the process
// began.
func Panics() map[string]uint64 {
	panics.mu.Lock()
	defer panics.mu.Unlock()
	return maps.Clone(panics.of)
}

// onPanic is what OnPanic was given.
var onPanic atomic.Pointer[func(*PanicError)]

// OnPanic sets what is told of each panic that is recovered; without it they are
// written to standard error. This package links no logger, because ingot-init,
// which stands in every instance, links this package.
func OnPanic(report func(*PanicError)) { onPanic.Store(&report) }

// Recovered counts a panic and reports it with its stack, and returns it as an
// error. It is for the deferred functions of code that has to recover by
// itself; value is what recover returned, and not nil.
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
		fmt.Fprintf(os.Stderr, "%v; the process goes on\n%s\n", err, err.Stack)
	}
	return err
}

// Do calls f. A panic of f becomes a *PanicError, so that it is the failure of
// this one job.
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

// nameOf names a function by the package it stands in, for goroutines that were
// given no name.
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

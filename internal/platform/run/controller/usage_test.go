package controller

import (
	"strings"
	"testing"
	"time"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/run/controller/usage"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	cpu := 30 * time.Second
	w.fake.usage = func(string) *engine.Usage { return &engine.Usage{CPUTime: cpu, Memory: 5, MemoryLimit: 7, Disk: 9} }
	w.begin()
	id := w.awaitRunning(1)[0]
	w.clock.Advance(time.Minute)
	ask := func() usage.Usage { return w.c.Usage(t.Context(), id, "none")[id] }
	if u := ask(); u.CPU != 0.5 || u.Memory != 5 || u.MemoryLimit != 7 || u.Disk != 9 {
		t.Errorf("usage is %+v, want CPU 0.5, memory 5 of 7, disk 9", u)
	}
	w.fake.write(id, strings.Repeat("x", 500))
	w.await("the line", func() bool { return len(w.logs.of("APP/PROC/WEB")) == 1 })
	w.fake.set(func() { cpu += 10 * time.Second })
	if u := ask(); u.CPU != 0.5 {
		t.Errorf("it is asked again at once: %+v", u)
	}
	w.clock.Advance(5 * time.Second)
	if u := ask(); u.CPU != 2 || u.LogRate != 100 {
		t.Errorf("usage is %+v, want CPU 2 and log rate 100", u)
	}
	if u := w.c.Usage(t.Context(), "none"); len(u) != 0 {
		t.Errorf("usage of an unknown instance is %v, want none", u)
	}
}

// While an instance starts, its memory is read again soon; its rates are not.
func TestUsageOfAYoungInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	memory, cpu := int64(5), time.Duration(0)
	w.fake.usage = func(string) *engine.Usage { return &engine.Usage{CPUTime: cpu, Memory: memory, Disk: memory} }
	w.begin()
	id := w.awaitRunning(1)[0]
	w.clock.Advance(time.Second)
	ask := func() usage.Usage { return w.c.Usage(t.Context(), id)[id] }
	first := ask()
	w.fake.set(func() { memory, cpu = 500, time.Hour })
	if u := ask(); u.Memory != 5 {
		t.Errorf("it is read again at once: %+v", u)
	}
	w.clock.Advance(100 * time.Millisecond)
	if u := ask(); u.Memory != 500 || u.Disk != 500 || u.CPU != first.CPU {
		t.Errorf("after 100 ms: %+v, at first %+v", u, first)
	}
	w.clock.Advance(time.Minute)
	ask()
	w.fake.set(func() { memory = 7 })
	w.clock.Advance(100 * time.Millisecond)
	if u := ask(); u.Memory != 500 {
		t.Errorf("an old instance is read again soon: %+v", u)
	}
}

// Starting takes processor time in a burst; the first reading does not show it as a load of
// several processors.
func TestUsageOfAFreshInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.fake.usage = func(string) *engine.Usage { return &engine.Usage{CPUTime: 300 * time.Millisecond} }
	w.begin()
	id := w.awaitRunning(1)[0]
	w.clock.Advance(100 * time.Millisecond)
	if u := w.c.Usage(t.Context(), id)[id]; u.CPU <= 0 || u.CPU > 0.05 {
		t.Errorf("the CPU of an instance 100 ms after its start is %v, want that of 300 ms in 15 s", u.CPU)
	}
}

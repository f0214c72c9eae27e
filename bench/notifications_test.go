package main

import (
	"testing"
)

func TestMedianTurn(t *testing.T) {
	t.Parallel()
	var turns []turn
	for _, with := range []float64{300, 80, 95, 20, 100} {
		turns = append(turns, turn{with: Result{PerSecond: with}, without: Result{PerSecond: 100}})
	}
	middle, low, high := medianTurn(turns)
	if middle.with.PerSecond != 95 || low != 0.2 || high != 3 {
		t.Errorf("%+v, from %v to %v", middle, low, high)
	}
	if middle, low, high = medianTurn(turns[:1]); middle.ratio() != 3 || low != 3 || high != 3 {
		t.Errorf("%+v, from %v to %v", middle, low, high)
	}
}

func TestMailSink(t *testing.T) {
	t.Parallel()
	s, err := startMailSink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	if _, err := s.bareMail(1, 1)(t.Context()); err == nil {
		t.Error("it repeats a message that it never got")
	}
	content := []byte("Subject: x\r\n\r\n..a line that begins with a dot\r\n.\r\n")
	s.last.Store(&content)
	got, err := s.bareMail(3, 300)(t.Context())
	if err != nil || got.PerSecond <= 0 {
		t.Fatalf("rate is %+v, %v, want more than 0", got, err)
	}
	if err := s.await(t.Context(), &s.accepted, 300); err != nil || s.accepted.Load() != 300 {
		t.Errorf("%d of 300 messages, %v", s.accepted.Load(), err)
	}
	if last := string(*s.last.Load()); last != string(content) {
		t.Errorf("kept %q", last)
	}
	s.greylist.Store(true)
	if err := repeatMail(t.Context(), s.addr(), content, 0, 1); err == nil || s.refused.Load() != 1 {
		t.Errorf("refused %d, %v", s.refused.Load(), err)
	}
}

func TestAtLeast(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{4999: resultFail, 5000: resultPass, 5001: resultPass} {
		f := Figure{Value: value, Unit: "/s", Goal: AtLeast(5000)}
		if f.judge() != want || f.goalText() != ">= 5000 /s" {
			t.Errorf("%g is judged %s by %s, want %s by >= 5000 /s", value, f.judge(), f.goalText(), want)
		}
	}
}

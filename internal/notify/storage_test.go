package notify_test

import (
	"testing"
	"time"

	"ingot/internal/notify"
)

func TestParseKept(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"1h": time.Hour, "36h": 36 * time.Hour, "72h": 3 * day, "1d": day, "400d": 400 * day, "9600h": 400 * day,
		"007d": 7 * day,
	} {
		got, err := notify.ParseKept(text, 400*day)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
		if again, err := notify.ParseKept(notify.KeptText(got), 400*day); err != nil || again != got {
			t.Errorf("%s is shown as %s: %v, %v", text, notify.KeptText(got), again, err)
		}
	}
	for _, text := range []string{"", "h", "d", "7", "0h", "0d", "-1h", "+1h", "1.5h", "90m", "1h30m", "401d", "9601h",
		"4294967295d", "99999999999999999999h", " 1h", "1h ", "1 h", "1H", "٧d", "1e2h", "0x10h", "1_0h", "1w", "1\x00h"} {
		if got, err := notify.ParseKept(text, 400*day); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	for d, want := range map[time.Duration]string{time.Hour: "1h", day: "24h", 36 * time.Hour: "36h", 7 * day: "7d",
		90 * time.Minute: "1h30m", 10 * time.Second: "10s"} {
		if got := notify.KeptText(d); got != want {
			t.Errorf("%v is shown as %s, want %s", d, got, want)
		}
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// openTab starts a browser with a new profile; "" as path means that none is installed.
func (r *Report) openTab(ctx context.Context) (tab context.Context, end func(), err error) {
	path := ""
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, nil, nil
	}
	dir, err := os.MkdirTemp(r.Scratch, "browser-")
	if err != nil {
		return nil, nil, err
	}
	o := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true), chromedp.WindowSize(1440, 900),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.*, EXCLUDE localhost"),
		chromedp.WSURLReadTimeout(time.Minute))
	tab, endBrowser := chromedp.NewExecAllocator(ctx, o...)
	tab, endTab := chromedp.NewContext(tab)
	return tab, func() {
		endTab()
		endBrowser()
	}, nil
}

// measureTab measures what a browser shows.
func measureTab(ctx context.Context, r *Report, p *Platform, app *App) error {
	tab, end, err := r.openTab(ctx)
	if err != nil {
		return err
	}
	if tab == nil {
		r.Note("no browser is installed here (on Debian: apt-get install chromium-headless-shell): the live log and " +
			"the crash were not measured.")
		return nil
	}
	defer end()
	err = chromedp.Do(tab,
		chromedp.Navigate("http://"+p.API+consolePath), chromedp.WaitVisible(chromedp.CSS("#username")),
		chromedp.SendKeys(chromedp.CSS("#username"), "admin"), chromedp.SendKeys(chromedp.CSS("#password"), adminPassword),
		chromedp.Click(chromedp.CSS("button")), chromedp.WaitVisible(chromedp.CSS(".user")))
	if err != nil {
		return fmt.Errorf("log in with a browser: %w", err)
	}
	if err := measureCrash(ctx, tab, r, p, app); err != nil {
		return err
	}
	return measureBusyLog(ctx, tab, r, p, app)
}

// evaluate returns the value of an expression in the page.
func evaluate[T any](tab context.Context, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(tab, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

// heap returns the live heap of the page, in MB of a million bytes.
func heap(tab context.Context) (float64, error) {
	if _, err := chromedp.Call(tab, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
		return 0, err
	}
	use, err := chromedp.Call(tab, runtime.GetHeapUsage, cdp.Empty{})
	if err != nil {
		return 0, err
	}
	return use.UsedSize / 1e6, nil
}

// watchLog counts the frames of each second, and notes the longest time between two frames,
// the longest task, and how old the newest line on the screen is in each frame.
const watchLog = `window.drawn = []; window.freeze = 0; window.task = 0; window.ages = []; (() => {
	let n = 0, since = performance.now();
	window.before = since;
	const log = document.getElementById("log");
	const frame = now => {
		n++;
		freeze = Math.max(freeze, now - before);
		before = now;
		if (now - since >= 1000) { drawn.push(n * 1000 / (now - since)); n = 0; since = now }
		const at = log.lastElementChild.lastElementChild.querySelector("[data-at]");
		if (at) ages.push(Date.now() - Number(at.dataset.at));
		requestAnimationFrame(frame);
	};
	requestAnimationFrame(frame);
	new PerformanceObserver(list => { for (const one of list.getEntries()) task = Math.max(task, one.duration) }).observe({type: "longtask"});
})(); true`

// watched is what watchLog has noted.
type watched struct {
	Drawn        []float64
	Freeze, Task float64 // ms
	Ages         []float64
}

// measureBusyLog lets the app write many lines while its log page is open.
func measureBusyLog(ctx, tab context.Context, r *Report, p *Platform, app *App) error {
	seconds, first := 60, 10*time.Second
	if r.Short {
		seconds, first = 6, 2*time.Second
	}
	err := chromedp.Do(tab, chromedp.Navigate("http://"+p.API+consolePath+"/apps/"+app.GUID+"/logs"),
		chromedp.WaitVisible(chromedp.CSS("#log .line")))
	if err != nil {
		return err
	}
	err = poll(ctx, pollEvery, "the live log", func() (bool, error) {
		return evaluate[bool](tab, `document.getElementById("log-state").textContent === "live"`)
	})
	if err != nil {
		return err
	}
	if _, err := evaluate[bool](tab, watchLog); err != nil {
		return err
	}
	lines := logPageRate * seconds
	began := time.Now()
	if err := p.print(ctx, app, logPageRate, lines); err != nil {
		return err
	}
	var early, froze float64
	var slowest time.Duration
	end := time.Duration(seconds) * time.Second
	err = pollFor(ctx, end+2*patience, 500*time.Millisecond, "the end of the lines", func() (bool, error) {
		asked := time.Now()
		_, err := evaluate[bool](tab, "true")
		slowest = max(slowest, time.Since(asked))
		if early == 0 && err == nil && time.Since(began) > first {
			// The collection of all garbage is not what a user waits for.
			if froze, err = evaluate[float64](tab, "freeze"); err == nil {
				early, err = heap(tab)
			}
			if err == nil {
				_, err = evaluate[bool](tab, "freeze = 0; before = performance.now(); true")
			}
		}
		return time.Since(began) > end, err
	})
	if err != nil {
		return err
	}
	saw, err := evaluate[watched](tab, "({Drawn: drawn, Freeze: freeze, Task: task, Ages: ages.slice(ages.length / 4)})")
	if err != nil || len(saw.Drawn) == 0 || len(saw.Ages) == 0 {
		return errors.Join(err, errors.New("the browser drew no frames"))
	}
	late, err := heap(tab)
	if err != nil {
		return err
	}
	elements, err := evaluate[float64](tab, `document.getElementsByTagName("*").length`)
	if err != nil {
		return err
	}
	r.Add(Figure{
		Name: "heap of a log page with 5,000 lines/s, at the end", Value: late, Unit: "MB",
		Beside: &Beside{"after " + first.String(), early},
		Goal:   Below(heapGrowthGoal * early), Detail: fmt.Sprintf("%d lines in %d s; %.0f elements", lines,
			seconds, elements),
	})
	saw.Freeze = max(saw.Freeze, froze)
	saw.add(r, slowest)
	return lastLine(ctx, tab, r, lines, began.Add(end))
}

// add reports the frames and the ages of lines that the browser saw.
func (saw watched) add(r *Report, slowest time.Duration) {
	slices.Sort(saw.Drawn)
	slices.Sort(saw.Ages)
	r.Add(Figure{
		Name: "frames in its worst second", Value: saw.Drawn[0], Unit: "frames/s",
		Beside: &Beside{"median", percentile(saw.Drawn, 0.5)}, Goal: AtLeast(framesGoal),
		Detail: fmt.Sprintf("the page answers within %s ms", number(millis(slowest))),
	})
	r.Add(Figure{
		Name: "its longest freeze", Value: saw.Freeze / 1000, Unit: "s", Goal: Below(freezeGoal),
		Detail: fmt.Sprintf("the longest time between two frames; the longest task took %.0f ms", saw.Task),
	})
	r.Add(Figure{
		Name: "its newest line is behind by, p99", Value: percentile(saw.Ages, 0.99) / 1000, Unit: "s",
		Goal:   Below(behindGoal),
		Beside: &Beside{"median", percentile(saw.Ages, 0.5) / 1000},
		Detail: "the age of the last line in each frame, without the first quarter",
	})
}

// lastLine adds how long after it was written the last line is on the screen.
func lastLine(ctx, tab context.Context, r *Report, lines int, written time.Time) error {
	shown := fmt.Sprintf(`document.getElementById("log").lastElementChild.lastElementChild.textContent.includes("bench %d ")`, lines-1)
	for time.Since(written) < 4*patience {
		done, err := evaluate[bool](tab, shown)
		if err != nil {
			return err
		}
		if done {
			r.Add(Figure{Name: "its last line is on the screen after", Value: max(0, time.Since(written).Seconds()), Unit: "s",
				Goal: Below(behindGoal)})
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	at, err := evaluate[string](tab,
		`document.getElementById("log-state").textContent + ": " + document.getElementById("log").lastElementChild.lastElementChild.textContent.slice(0, 60)`)
	r.Note("the last line, %d, was not on the screen %s after it was written. The page shows %s", lines-1, 4*patience, at)
	return err
}

// watchReasons notes when the reason of a crash appears.
const watchReasons = `window.seen = {}; new MutationObserver(() => {
	const found = /Exited with status (\d+)/.exec(document.getElementById("live").textContent);
	if (found) seen[found[1]] ??= Date.now();
}).observe(document.getElementById("live"), {subtree: true, childList: true, characterData: true}); true`

// measureCrash lets the app exit, and measures when the page says why.
func measureCrash(ctx, tab context.Context, r *Report, p *Platform, app *App) error {
	rounds := 8
	if r.Short {
		rounds = 2
	}
	err := chromedp.Do(tab, chromedp.Navigate("http://"+p.API+consolePath+"/apps/"+app.GUID),
		chromedp.WaitVisible(chromedp.CSS(".instance.running")))
	if err != nil {
		return err
	}
	if _, err := evaluate[bool](tab, watchReasons); err != nil {
		return err
	}
	var took []time.Duration
	for n := range rounds {
		// The page is rendered at intervals: crashes fall anywhere between.
		if err := pause(ctx, time.Duration(n)*137*time.Millisecond); err != nil {
			return err
		}
		code := 3 + n
		crashed, err := p.exit(ctx, app, code)
		if err != nil {
			return err
		}
		at := 0.0
		err = poll(ctx, pollEvery, "the reason of the crash on the screen", func() (bool, error) {
			at, err = evaluate[float64](tab, fmt.Sprintf(`seen[%d] ?? 0`, code))
			return at > 0, err
		})
		if err != nil {
			return err
		}
		took = append(took, time.UnixMilli(int64(at)).Sub(crashed))
		// Apps that crash often are started later and later, unless they are restarted.
		if err := p.Do(ctx, http.MethodPost, "/v3/apps/"+app.GUID+"/actions/restart", nil, nil); err != nil {
			return err
		}
		if err := p.awaitRunning(ctx, app); err != nil {
			return err
		}
		if err := p.awaitAnswer(ctx, app, ""); err != nil {
			return err
		}
	}
	slices.Sort(took)
	r.Add(Figure{
		Name: "from a crash to its reason on the screen, worst", Value: percentile(took, 1).Seconds(), Unit: "s",
		Goal:   Below(crashGoal),
		Beside: &Beside{"median", percentile(took, 0.5).Seconds()},
		Detail: fmt.Sprintf("%d crashes, without a reload", rounds),
	})
	return nil
}

// exit lets the app exit, and returns the time just before.
func (p *Platform) exit(ctx context.Context, app *App, code int) (time.Time, error) {
	w, err := dial(ctx, p.API)
	if err != nil {
		return time.Time{}, err
	}
	defer w.conn.Close()
	at := time.Now()
	status, err := w.do(get(app.Host, fmt.Sprintf("/exit?code=%d", code)))
	if err == nil && status != http.StatusBadGateway {
		err = fmt.Errorf("an app that exits answers %d", status)
	}
	return at, err
}

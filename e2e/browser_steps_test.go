package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/chromedp/chromedp"
)

// The steps of a tab that concern an element look it up in the page itself, and an error says which
// element they waited for. The library's own steps look it up in a copy of the page, which
// follows the browser's events, and do not say what they waited for.

// Parts of the scripts that wait for an element, which is e, or null.
const (
	isPresent = `e !== null`
	isVisible = `e !== null && e.getClientRects().length > 0 && getComputedStyle(e).visibility === "visible"`
)

// present waits until the page has the element of a CSS selector, visible until it is visible, and
// absent until the page has none.
func present(css string) chromedp.Action[chromedp.Void] { return awaitElement(css, isPresent) }
func visible(css string) chromedp.Action[chromedp.Void] { return awaitElement(css, isVisible) }
func absent(css string) chromedp.Action[chromedp.Void]  { return awaitElement(css, `e === null`) }

// clickOn clicks the center of an element with the mouse, when the element is visible there. The
// page may move between finding the point and the click, so a click that missed is repeated.
func clickOn(css string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for {
			var at []float64
			if err := awaitValue(ctx, t, "a point to click on", css, `(e => {
				if (!(`+isVisible+`)) return null;
				e.scrollIntoViewIfNeeded();
				const r = e.getClientRects()[0], x = r.left + r.width / 2, y = r.top + r.height / 2;
				const hit = document.elementFromPoint(x, y);
				if (!hit || !e.contains(hit) && !hit.contains(e)) return null;
				const to = e.contains(hit) ? e : hit;
				to.addEventListener("probe", () => { window.missed = true }, {once: true});
				to.addEventListener("click", () => { window.missed = false }, {once: true, capture: true});
				to.dispatchEvent(new Event("probe")); // not heard where scripts are off, and a click would not be either
				return [x, y];
			})`, &at); err != nil {
				return err
			}
			if _, err := chromedp.MouseClickXY(at[0], at[1])(ctx, t); err != nil {
				return fmt.Errorf("click on %s: %w", css, err)
			}
			// A click that led to another page took its variables with it, or the answer.
			if missed, err := chromedp.Evaluate[bool](`window.missed === true`)(ctx, t); err != nil || !missed {
				return ctx.Err()
			}
		}
	})
}

// typeInto presses the keys of a text while a visible element has the focus; \r is Enter.
func typeInto(css, text string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := awaitElement(css, isVisible+` && (e.focus(), e.contains(document.activeElement))`)(ctx, t); err != nil {
			return err
		}
		_, err := chromedp.KeyEvent(text)(ctx, t)
		return err
	})
}

// emptied empties a field.
func emptied(css string) chromedp.Action[chromedp.Void] {
	return awaitElement(css, isVisible+` && (e.value = "", e.dispatchEvent(new Event("input", {bubbles: true})))`)
}

// awaitElement waits until a condition about the first element of a CSS selector holds.
func awaitElement(css, condition string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		var holds bool
		return awaitValue(ctx, t, condition, css, `(e => (`+condition+`) || null)`, &holds)
	})
}

// awaitValue waits until a function of the first element of a CSS selector, or of null, returns
// something other than null.
func awaitValue[T any](ctx context.Context, t *chromedp.Target, what, css, function string, to *T) error {
	selector, err := json.Marshal(css)
	if err != nil {
		return err
	}
	script := function + `(document.querySelector(` + string(selector) + `))`
	last := "nothing"
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		got, err := chromedp.Evaluate[*T](script)(ctx, t)
		if wrong := (*chromedp.ExceptionError)(nil); errors.As(err, &wrong) && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", strconv.Quote(css), err)
		}
		if err == nil && got != nil {
			*to = *got
			return nil
		}
		if err != nil && ctx.Err() == nil {
			last = err.Error()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s, wanted %s: %w (the browser said: %s)", strconv.Quote(css), what, ctx.Err(), last)
		case <-time.After(pause): // also when the tab goes to another page, which is an error
		}
	}
}

package actions

import (
	"fmt"
	"time"
)

// maxAhead limits how far in the future a send may be: what is farther away is a mistake, or
// forgotten by then.
const maxAhead = 366 * 24 * time.Hour

// checkTimes returns what is wrong with the times of a request.
func checkTimes(r Request, now time.Time) (problems []string) {
	if r.SendAt.After(now.Add(maxAhead)) {
		problems = append(problems, fmt.Sprintf(`"send_at" is %s, more than %d days from now: nothing was sent`,
			r.SendAt.UTC().Format(time.RFC3339), maxAhead/(24*time.Hour)))
	}
	begin := now
	if r.SendAt.After(now) {
		begin = r.SendAt
	}
	switch at := r.ExpiresAt; {
	case at.IsZero():
	case !at.After(begin):
		problems = append(problems, fmt.Sprintf(`"expires_at" is %s, which is not after the message is due: nothing was sent`,
			at.UTC().Format(time.RFC3339)))
	case at.After(begin.Add(maxAhead)):
		problems = append(problems, fmt.Sprintf(
			`"expires_at" is %s, more than %d days after the message is due: nothing was sent`,
			at.UTC().Format(time.RFC3339), maxAhead/(24*time.Hour)))
	}
	return problems
}

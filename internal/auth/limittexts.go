package auth

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// LimitTexts are the limits of wrong passwords and secrets, each N/DURATION: N at once,
// of which that many return in the duration. Empty ones mean the defaults.
type LimitTexts struct {
	Address string // from one address
	Account string // of one account, from addresses it has not logged in from
	Pair    string // of one account from one address
	Client  string // requests of one client from one address, right or wrong
	Lockout string // N wrong ones in a row lock an account for an address for that long
}

// DefaultLimitTexts are the limits that apply without flags.
func DefaultLimitTexts() LimitTexts {
	return LimitTexts{Address: "100/100s", Account: "100/100m", Pair: "20/20m", Client: "1000/2s", Lockout: "5/1m"}
}

// Parse returns the limits, or the flag whose value is wrong and why.
func (l LimitTexts) Parse() (out Limits, flag string, err error) {
	for _, one := range []struct {
		flag, value string
		n           *int
		rate        *float64
	}{
		{"login-limit-address", l.Address, &out.AddressBurst, &out.AddressRate},
		{"login-limit-account", l.Account, &out.AccountBurst, &out.AccountRate},
		{"login-limit-pair", l.Pair, &out.PairBurst, &out.PairRate},
		{"login-limit-client", l.Client, &out.ClientBurst, &out.ClientRate},
		{"login-lockout", l.Lockout, &out.LockoutAfter, nil},
	} {
		if one.value == "" {
			continue
		}
		n, in, err := parseLimit(one.value)
		if err != nil {
			return out, one.flag, err
		}
		if *one.n = n; one.rate != nil {
			*one.rate = float64(n) / in.Seconds()
		} else {
			out.LockoutFor = in
		}
	}
	return out, "", nil
}

// parseLimit reads N/DURATION.
func parseLimit(s string) (n int, in time.Duration, err error) {
	number, duration, _ := strings.Cut(s, "/")
	n, err = strconv.Atoi(number)
	if err == nil {
		in, err = time.ParseDuration(duration)
	}
	if err != nil || n < 1 || in < time.Second || in > 30*24*time.Hour {
		return 0, 0, fmt.Errorf("%q is not N/DURATION, for example 100/10m, with a duration of at least a second", s)
	}
	return n, in, nil
}

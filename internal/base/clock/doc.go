// Package clock returns a time that changes of the machine's clock do not affect.
//
// A deadline in memory needs none of it: the values of time.Now contain the monotonic
// clock. A deadline that is stored, or kept as a number, loses that. When the clock is
// set forward it passes at once, and when the clock is set back it passes late. [Steady]
// is for these. [Clock] is for code whose timers tests have to advance.
//
// Imports: base/background.
package clock

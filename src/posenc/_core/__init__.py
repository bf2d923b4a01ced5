"""What every other layer stands on: specs, ladders, phases, arrays, errors."""

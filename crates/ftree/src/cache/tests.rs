//! Tests of the budget.

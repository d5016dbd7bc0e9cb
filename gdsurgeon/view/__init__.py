"""Shows results to people and programs: summaries, tables, JSON, trees and pictures."""
